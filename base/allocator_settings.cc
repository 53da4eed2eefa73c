// jemalloc reads this at its start. Memory that is free goes back to the system within five
// seconds, also where the program has nothing to do: after a flood of requests a coordinator is as
// small as before. Less than that costs a program under load more than it saves.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:5000,muzzy_decay_ms:0";
}
