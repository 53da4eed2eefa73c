#pragma once

#include <stdint.h>

/* What a plug-in and dp's trainer call of each other, in C, so that the two may come from different
   compilers. C++ plug-ins use dp/plugin.h instead.

   The library exports one function, dp_plugin. Texts end with a 0 and are UTF-8. A function that
   returns a text returns null for success, else what is wrong; the text is valid until the same
   thread calls the library again. No function lets an exception out. dp calls one layer from one
   thread at a time, always the same.

   Arrays of values are float32, with the samples of a batch one behind the other, and the last
   axis of a shape running fastest. */

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when anything below changes. A trainer loads only plug-ins of its own version. */
#define DP_PLUGIN_ABI 1

enum DpPluginType {
  DP_PLUGIN_NULL = 0,
  DP_PLUGIN_FLAG = 1,
  DP_PLUGIN_NUMBER = 2,
  DP_PLUGIN_TEXT = 3,
  DP_PLUGIN_LIST = 4,
  DP_PLUGIN_MAPPING = 5,
};

/* A value of the config in the job file. Lists and mappings are followed by their own values. */
typedef struct DpPluginValue {
  const char* path; /* "scale", "widths[0]", "init.std" */
  int32_t type;     /* DpPluginType */
  double number;    /* the number; a flag's 0 or 1; the length of a list or mapping */
  const char* text; /* "" if it is none */
} DpPluginValue;

/* What a layer is made for. Valid during the call. */
typedef struct DpPluginPlace {
  const DpPluginValue* config;
  int64_t config_size;
  const int64_t* input; /* the shape of one sample of the input */
  int32_t input_axes;
  int32_t batch_size; /* the most samples of a call */
  int32_t threads;    /* how many threads the layer may use */
  uint64_t seed;      /* of its random numbers: with DpPluginForward's draw and numbers */
} DpPluginPlace;

enum DpPluginInitial {
  DP_PLUGIN_CONSTANT = 0, /* every value is `scale` */
  DP_PLUGIN_UNIFORM = 1,  /* in (-scale, scale) */
  DP_PLUGIN_NORMAL = 2,   /* around 0, with the standard deviation `scale` */
};

/* dp draws the initial values from the job's seed, in the order of layers and of their parameters.
 */
typedef struct DpPluginParameter {
  const char* name; /* letters, digits, '_' and '-' */
  const int64_t* shape;
  int32_t axes;
  int32_t initial; /* DpPluginInitial */
  float scale;
  /* 0, or above 0 and at most 1: a running statistic, which no optimizer changes. Backward writes
     what the batch has measured in place of a gradient, as a mean over its samples. dp averages
     over all ranks: value = (1 - momentum) value + momentum measured. */
  float momentum;
} DpPluginParameter;

typedef struct DpPluginForward {
  int32_t samples;  /* 0 to batch_size */
  int32_t training; /* 1, or 0 in an evaluation */
  const float* input;
  float* output;                  /* to be written */
  const float* const* parameters; /* the values of each */
  uint64_t draw;                  /* differs from step to step; */
  const int64_t* numbers;         /* the samples' numbers in their data set */
} DpPluginForward;

/* Follows the forward of the same batch, whose `input` and `output` are unchanged. Gradients are of
   the loss; those of samples add up, as the loss does. Each is overwritten. */
typedef struct DpPluginBackward {
  int32_t samples;
  const float* input;
  const float* output;
  const float* output_gradient;
  float* input_gradient; /* null: nobody needs it */
  const float* const* parameters;
  float* const* gradients; /* of each parameter */
} DpPluginBackward;

/* A layer as `make` gives it. Its pointers are valid until `destroy`. */
typedef struct DpPluginLayer {
  void* self;            /* the first argument of the functions */
  const int64_t* output; /* the shape of one sample of the output, of 1 to 3 axes */
  int32_t output_axes;
  int32_t parameter_count;
  const DpPluginParameter* parameters;
  const char* (*forward)(void* self, const DpPluginForward* batch);
  const char* (*backward)(void* self, const DpPluginBackward* batch);
  void (*destroy)(void* self);
} DpPluginLayer;

typedef struct DpPluginKind {
  const char* name; /* as `layer` in a job file */
  /* Makes a layer. dp also makes layers only to ask for their shapes, with a batch_size of 1. */
  const char* (*make)(const DpPluginPlace* place, DpPluginLayer* layer);
} DpPluginKind;

typedef struct DpPlugin {
  int32_t abi; /* DP_PLUGIN_ABI; stays the first field in all versions */
  int32_t kind_count;
  const DpPluginKind* kinds;
} DpPlugin;

/* The table of the library, which lives as long as the process. */
typedef const DpPlugin* (*DpPluginEntry)(void);
#define DP_PLUGIN_ENTRY "dp_plugin"

#ifdef __cplusplus
}
#endif
