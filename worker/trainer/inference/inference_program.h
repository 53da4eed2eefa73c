#pragma once

namespace dp::trainer {

// `dp-trainer evaluate FILE` and `dp-trainer predict FILE`: reads a request from the file, carries
// it out and prints the response, both in JSON (dp/v1/inference.proto). `verb` is the first word.
// An error is part of the response. Returns the exit code: 0; 1 the response has an error; 2 the
// file is no request.
int RunInference(const char* program, const char* verb, const char* file);

}  // namespace dp::trainer
