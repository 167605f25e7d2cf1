/* A chat in the terminal, on the C interface alone.
 *
 *   cc chat.c -lorrery -o chat && ./chat MODEL
 */
#include <orrery/orrery.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char* conversation; /* the messages as a JSON array, without its last bracket */
static size_t conversation_size;

static void add_bytes(const char* bytes, size_t size) {
  conversation = realloc(conversation, conversation_size + size + 1);
  if (conversation == NULL) exit(1);
  memcpy(conversation + conversation_size, bytes, size);
  conversation_size += size;
  conversation[conversation_size] = 0;
}

/* Bytes inside of a JSON string. */
static void add_escaped(const char* text, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    char escaped[8];
    const unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\') {
      snprintf(escaped, sizeof escaped, "\\%c", c);
    } else if (c < 0x20) {
      snprintf(escaped, sizeof escaped, "\\u%04x", c);
    } else {
      snprintf(escaped, sizeof escaped, "%c", c);
    }
    add_bytes(escaped, strlen(escaped));
  }
}

static void begin_message(const char* role) {
  char begin[64];
  snprintf(begin, sizeof begin, "%s{\"role\":\"%s\",\"content\":\"",
           conversation_size > 1 ? "," : "", role);
  add_bytes(begin, strlen(begin));
}

static void end_message(void) {
  add_bytes("\"}", 2);
}

/* The answer goes to the terminal and into the conversation as it comes. */
static int on_text(const char* text, size_t size, void* user) {
  (void)user;
  fwrite(text, 1, size, stdout);
  fflush(stdout);
  add_escaped(text, size);
  return 0;
}

/* The conversation as tokens; the caller frees them. */
static int32_t* render(const orrery_model* model, size_t* count, orrery_error* error) {
  add_bytes("]", 1);
  int32_t* ids = NULL;
  if (orrery_render_tokens(model, conversation, 1, NULL, 0, count, error) == 0) {
    ids = malloc((*count + 1) * sizeof *ids);
    if (ids != NULL && orrery_render_tokens(model, conversation, 1, ids, *count, count, error)) {
      free(ids);
      ids = NULL;
    }
  }
  --conversation_size;
  return ids;
}

int main(int argc, char** argv) {
  orrery_error error = {"", ""};
  orrery_model* model = NULL;
  orrery_session* session = NULL;
  char line[4096];
  int failed = 0;

  if (argc != 2) {
    fprintf(stderr, "usage: chat MODEL\n");
    return 2;
  }
  if (orrery_model_open(argv[1], NULL, &model, &error) ||
      orrery_session_open(model, &session, &error)) {
    fprintf(stderr, "error[%s]: %s\n", error.kind, error.message);
    orrery_model_close(model);
    return 1;
  }
  add_bytes("[", 1);
  while (!failed && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = 0;
    begin_message("user");
    add_escaped(line, strlen(line));
    end_message();

    size_t count = 0;
    int32_t* ids = render(model, &count, &error);
    orrery_generate_options options;
    orrery_generate_options_init(&options);
    options.on_text = on_text;
    begin_message("assistant");
    failed =
        ids == NULL || orrery_generate(session, ids, count, NULL, &options, NULL, 0, NULL, &error);
    end_message();
    puts("");
    free(ids);
  }
  if (failed) fprintf(stderr, "error[%s]: %s\n", error.kind, error.message);
  free(conversation);
  orrery_session_close(session);
  orrery_model_close(model);
  return failed;
}
