// OLMo 2 (arXiv 2501.00656): blocks are normalised after, not before; q and k over their whole
// width.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  const Key window{"attention.sliding_window", "sliding_window"};
  if (source.has(window)) {  // OLMo 3 under the same name
    return fail("E_HPARAM", source.name(window) + " is set: OLMo 3 is not supported");
  }
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  return read_rope(source, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(x), plan::QkNorm::width);
    x = add_normed_attention(r, attended, x);
    const plan::BufferId gated = r.glu(x);
    x = add_normed_ffn(r, gated, x);
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"olmo2"};
constexpr NamePair kTensorNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

}  // namespace

extern const Family kOlmo2;
constexpr Family kOlmo2 = {.name = "olmo2",
                           .gguf = kNames,
                           .config = kNames,
                           .tensor_names = kTensorNames,
                           .read = read,
                           .forward = forward};

}  // namespace orrery::model
