/* Orrery: the stable C interface.
 *
 * Objects are opaque and freed by their _close function. A model is immutable and may be used by
 * several threads at once; a session belongs to one thread at a time. Sessions keep their model
 * alive: closing order does not matter.
 *
 * Functions that can fail return 0 when done and 1 otherwise; then `error`, unless it is NULL,
 * says why. Nothing is printed, nothing ends the process for what a file or an argument holds.
 *
 * Structures begin with `size`; their _init functions set it and the defaults, so that programs
 * compiled against an older header keep working. Texts are UTF-8. Counts of texts are bytes.
 *
 * Functions that fill a buffer set *count to what is needed in all. With a NULL buffer they only
 * count; a buffer that is too small is error E_BUFFER.
 */
#ifndef ORRERY_ORRERY_H
#define ORRERY_ORRERY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ORRERY_API __attribute__((visibility("default")))
#else
#define ORRERY_API
#endif

typedef struct orrery_model orrery_model;
typedef struct orrery_session orrery_session;

/* kind: a short name that programs compare, "E_NOTFOUND"; message: one sentence for people. Both
 * end in a zero byte; long ones are cut at a whole character. */
typedef struct orrery_error {
  char kind[32];
  char message[992];
} orrery_error;

/* "0.1.0" */
ORRERY_API const char* orrery_version(void);

/* ---- models ---- */

typedef struct orrery_model_options {
  size_t size;
  const char* device;    /* "cpu" or "reference" (slow, double precision) */
  const char* isa;       /* "" chooses; "emu", "avx2", "avx512": forced */
  int32_t threads;       /* 0: physical cores */
  uint32_t context;      /* tokens of a session; 0: as trained, capped by memory */
  uint32_t max_sessions; /* open at once; 1 */
  int32_t deterministic; /* 1: answers depend neither on slices nor on what was reused */
  uint64_t cache_bytes;  /* budget of all sessions; 0: half of the available memory */
} orrery_model_options;

typedef struct orrery_model_info {
  size_t size;
  const char* name;   /* these three live as long as the model */
  const char* family; /* "llama" */
  const char* device;
  uint64_t weight_bytes, scratch_bytes, cache_bytes_per_token;
  uint32_t context, training_context; /* tokens */
  int32_t vocabulary;                 /* tokens; logits have as many entries */
  int32_t threads;
  int32_t bos, eos; /* token ids, -1: none */
  int32_t has_chat_template;
} orrery_model_info;

ORRERY_API void orrery_model_options_init(orrery_model_options* options);
/* `path`: a GGUF file, a safetensors file or a model folder. options may be NULL. */
ORRERY_API int orrery_model_open(const char* path, const orrery_model_options* options,
                                 orrery_model** model, orrery_error* error);
ORRERY_API void orrery_model_close(orrery_model* model); /* NULL is fine */
/* Set info->size to sizeof *info first. */
ORRERY_API void orrery_model_get_info(const orrery_model* model, orrery_model_info* info);

/* Reads a LoRA adapter, a GGUF file or PEFT's folder, for the sessions that name it by *adapter. It
 * stays as long as the model. E_ADAPTER when it does not fit the model. */
ORRERY_API int orrery_adapter_load(const orrery_model* model, const char* path, uint32_t* adapter,
                                   orrery_error* error);

/* ---- text ---- */

/* add_special: the model's own BOS or EOS around the text. parse_special: special tokens that are
 * written in the text become their ids; leave it 0 for text that others wrote. */
ORRERY_API int orrery_tokenize(const orrery_model* model, const char* text, size_t text_size,
                               int add_special, int parse_special, int32_t* ids, size_t capacity,
                               size_t* count, orrery_error* error);
ORRERY_API int orrery_detokenize(const orrery_model* model, const int32_t* ids, size_t n_ids,
                                 int keep_special, char* text, size_t capacity, size_t* count,
                                 orrery_error* error);
/* The model's chat template over a conversation. `messages_json`: a JSON array of {"role",
 * "content"} objects, or an object of template variables with "messages" in it ("tools", ...).
 * E_NOTEMPLATE when the model has none. The text is not zero-terminated. */
ORRERY_API int orrery_render(const orrery_model* model, const char* messages_json,
                             int add_generation_prompt, char* text, size_t capacity, size_t* count,
                             orrery_error* error);
/* The same as tokens: special tokens come from the template alone, never from the messages. */
ORRERY_API int orrery_render_tokens(const orrery_model* model, const char* messages_json,
                                    int add_generation_prompt, int32_t* ids, size_t capacity,
                                    size_t* count, orrery_error* error);

/* ---- sessions ---- */

/* E_SEQUENCES when max_sessions are open, E_ENCODER for a model that only makes vectors. */
ORRERY_API int orrery_session_open(const orrery_model* model, orrery_session** session,
                                   orrery_error* error);
ORRERY_API void orrery_session_close(orrery_session* session); /* NULL is fine */
ORRERY_API void orrery_session_clear(orrery_session* session);

typedef struct orrery_adapter_use {
  uint32_t adapter;
  float scale; /* 1: as it was trained */
} orrery_adapter_use;

/* The adapters of what follows, instead of those before. Another set than before clears the
 * session. */
ORRERY_API int orrery_session_set_adapters(orrery_session* session, const orrery_adapter_use* uses,
                                           size_t n_uses, orrery_error* error);

/* Evaluates the whole list of tokens; what the session holds of it already is reused. `logits` of
 * the last token: info.vocabulary floats, or NULL. */
ORRERY_API int orrery_evaluate(orrery_session* session, const int32_t* ids, size_t n_ids,
                               float* logits, size_t capacity, orrery_error* error);

typedef struct orrery_bias {
  int32_t id;
  float bias; /* added to the logit; -INFINITY bans the token */
} orrery_bias;

typedef struct orrery_sampling {
  size_t size;
  float temperature; /* 0: the most probable token */
  int32_t top_k;     /* 0: off */
  float top_p;       /* 1: off */
  float min_p;       /* 0: off */
  float typical_p;   /* 1: off */
  float top_n_sigma; /* 0: off */
  float xtc_probability, xtc_threshold;
  int32_t penalty_last_n;                                    /* tokens; -1: the context */
  float repeat_penalty, frequency_penalty, presence_penalty; /* 1, 0, 0: off */
  float dry_multiplier, dry_base;                            /* 0: off */
  int32_t dry_allowed_length, dry_last_n;
  float dynatemp_range, dynatemp_exponent; /* 0: off */
  float repetition_temperature;            /* added while the answer repeats itself; 0: off */
  int32_t mirostat;                        /* 0: off, 1, 2 */
  float mirostat_tau, mirostat_eta;
  int64_t seed; /* -1: a new one each time */
  const orrery_bias* biases;
  size_t n_biases;
} orrery_sampling;

/* The model's own defaults. */
ORRERY_API void orrery_sampling_init(const orrery_model* model, orrery_sampling* sampling);

/* Whole characters, not zero-terminated. Not 0 ends the generation. */
typedef int (*orrery_text_callback)(const char* text, size_t text_size, void* user);

typedef struct orrery_generate_options {
  size_t size;
  uint32_t max_tokens;     /* 0: to the end of the turn or a full context */
  const char* const* stop; /* strings that end the answer and are not part of it */
  size_t n_stop;
  int32_t shift;                /* 1: a full context drops its oldest tokens instead of ending */
                                /* 2: and computes nothing again: what is left moves up */
  uint32_t keep;                /* tokens at the front that a shift keeps */
  orrery_text_callback on_text; /* may be NULL */
  void* user;
} orrery_generate_options;

typedef struct orrery_generation {
  size_t size;
  uint32_t prompt_tokens, reused_tokens, generated_tokens;
  double prefill_seconds, decode_seconds, first_token_seconds;
  const char* finish; /* "stop", "stop_string", "length", "context", "cancelled" */
} orrery_generation;

ORRERY_API void orrery_generate_options_init(orrery_generate_options* options);
/* Continues the tokens. sampling, options and generation may be NULL. New ids are written to `ids`
 * when it is not NULL, at most `capacity`. Set generation->size to sizeof *generation first. */
ORRERY_API int orrery_generate(orrery_session* session, const int32_t* prompt, size_t n_prompt,
                               const orrery_sampling* sampling,
                               const orrery_generate_options* options, int32_t* ids,
                               size_t capacity, orrery_generation* generation, orrery_error* error);

/* A vector for a text, scaled to length 1: made as the model says (the mean of its tokens, the
 * first or the last one), or of its last token where the model says nothing. Tokenize it with
 * add_special. With vector NULL only its number of elements is told in *count. E_CONTEXT when the
 * text is longer than what the model reads. */
ORRERY_API int orrery_embed(const orrery_model* model, const int32_t* ids, size_t n_ids,
                            float* vector, size_t capacity, size_t* count, orrery_error* error);

#ifdef __cplusplus
}
#endif

#endif
