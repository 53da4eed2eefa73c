// jemalloc reads this at startup. Free memory returns to the system within five seconds, even while
// the program is idle: after a flood of requests a coordinator shrinks again. A shorter delay would
// cost a loaded program more than it saves.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:5000,muzzy_decay_ms:0";
}
