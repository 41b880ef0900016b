// Tensors of libtorch shown to twinrun. Without twinrun around the program nothing is read or
// copied.
#pragma once
#include <string>
#include <torch/torch.h>
#include <twin/twin.h>

// The number that twinrun has for a type of ATen's; -1 for one that it records as bytes alone.
inline int twin_type(at::ScalarType type)
{
    switch (type) {
    case at::kByte: return TWIN_U8;
    case at::kChar: return TWIN_I8;
    case at::kBool: return TWIN_BOOL;
    case at::kShort: return TWIN_I16;
    case at::kInt: return TWIN_I32;
    case at::kLong: return TWIN_I64;
    case at::kHalf: return TWIN_F16;
    case at::kBFloat16: return TWIN_BF16;
    case at::kFloat: return TWIN_F32;
    case at::kDouble: return TWIN_F64;
    case at::kComplexFloat: return TWIN_C64;
    case at::kComplexDouble: return TWIN_C128;
    default: return -1;
    }
}

// Records a tensor where it lies, strides and all; one of another device or layout as a dense copy
// on the host. `name` is a kind and a colon in front of it: "weight:fc.weight". `place` and
// `function` say where in the program: strings that stay.
inline void show_at(const char *place, const char *function, const std::string &name,
                    const torch::Tensor &tensor)
{
    if (!twin_on() || !tensor.defined())
        return;
    torch::NoGradGuard no_grad;
    torch::Tensor t = tensor.detach();
    if (t.layout() != at::kStrided)
        t = t.to_dense();
    t = t.resolve_conj().resolve_neg().cpu();
    const int type = twin_type(t.scalar_type());
    if (type < 0) {
        t = t.contiguous();
        const int64_t bytes = static_cast<int64_t>(t.nbytes());
        twin_record_at(place, function, name.c_str(), TWIN_BYTES, 1, &bytes, nullptr, t.data_ptr(),
                       0);
        return;
    }
    twin_record_at(place, function, name.c_str(), static_cast<twin_dtype>(type),
                   static_cast<uint32_t>(t.dim()), t.sizes().data(), t.strides().data(),
                   t.data_ptr(), 0);
}
#define show(name, tensor) show_at(__FILE__ ":" TWIN_TEXT(__LINE__), __func__, name, tensor)

// A model's weights and buffers, before training ("init") or behind a step ("weight"), by their
// names.
inline void show_weights(const char *kind, const torch::nn::Module &model)
{
    for (const auto &p : model.named_parameters())
        show(kind + (":" + p.key()), p.value());
    for (const auto &b : model.named_buffers())
        show(kind + (":" + b.key()), b.value());
}

inline void show_gradients(const torch::nn::Module &model)
{
    for (const auto &p : model.named_parameters())
        show("gradient:" + p.key(), p.value().grad());
}
