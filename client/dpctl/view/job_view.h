#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "client/dpctl/context.h"
#include "client/dpctl/view/json_writer.h"
#include "dp/v1/jobs.pb.h"

// How dpctl shows a job. The field names of the JSON are a contract (docs/dpctl.md). Pure.

namespace dp::ctl {

// The number of ranks in the job's generation; before the first one, the minimum.
int WorldSizeOf(const v1::Job& job);

void WriteJob(const v1::Job& job, JsonWriter& json);
// The same with more fields, which `more` writes.
void WriteJob(const v1::Job& job, JsonWriter& json, absl::FunctionRef<void()> more);

// Prints the jobs in the format: their ids, an object with the list "items", or what `print_table`
// prints.
void PrintJobs(const std::vector<v1::Job>& jobs, Format format, std::ostream& out,
               absl::FunctionRef<void()> print_table);

// Shows everything known about a job, for people.
void DescribeJob(const v1::Job& job, absl::Time now, std::ostream& out);

// Prints the failure with the rank's last lines, for standard error at the end of a job.
void PrintFailure(const v1::Job& job, std::ostream& err);

// "41s", "3m", "2h5m", "4d": the two largest units that matter.
std::string AgeText(absl::Duration age);

// The names of the workers that have the job's ranks, each once.
std::vector<std::string> WorkersOf(const v1::Job& job);

}  // namespace dp::ctl
