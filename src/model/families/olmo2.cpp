// OLMo 2 (arXiv 2501.00656): blocks are normalised after, not before; q and k over their whole
// width.
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
  const Hparams& h = r.hparams();
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(x), plan::QkNorm::width);
    const plan::BufferId o =
        r.project("attn_output", attended, h.hidden_dim, h.q_dim(), plan::kNone);
    x = r.norm_add("post_attention_norm", o, x);
    r.tap("attn_residual", x);
    const plan::BufferId down =
        r.project("ffn_down", r.glu(x), h.hidden_dim, h.ffn_dim, plan::kNone);
    x = r.norm_add("post_ffw_norm", down, x);
    r.tap("ffn_residual", x);
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
