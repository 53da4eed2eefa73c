// jemalloc reads this at startup. Free memory returns to the system within a second, even while the
// program is idle: after a flood of requests a coordinator shrinks again. A second costs a loaded
// program nothing that can be measured. With five, a flood of small calls takes half as much again.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";
}
