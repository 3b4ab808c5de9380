// The layers of a transformer with what they share: backend, attention, observer, rotary table and workspace.
//
// Target and draft are each a stack of layers between ends of their own: embedding, taps and head there, injected
// context here. What a pass through the layers means is written once, in run().
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <dflash/concepts/cache.hpp>
#include <dflash/concepts/observer.hpp>
#include <dflash/concepts/replay.hpp>
#include <dflash/identity.hpp>
#include <dflash/model/layer.hpp>
#include <dflash/model/rope_positions.hpp>

DFLASH_BEGIN_NAMESPACE

/// Keeps a reference to the shape, which must outlive it and stay where it is.
template <tensor_ops Ops, class Attention, class Cache, class Observer>
class layer_stack {
public:
    static_assert(transformer_cache_check<Cache>());
    using space = typename Ops::space;
    using scalar = typename Ops::scalar;
    using rows = matrix_view<scalar, space>;

    /// Without layers.
    layer_stack(const transformer_shape& shape, Ops ops, Attention attention, Observer observer)
        : shape_(&shape),
          ops_(std::move(ops)),
          attention_(std::move(attention)),
          observer_(std::move(observer)),
          rope_(shape.rope, shape.head_dim, shape.max_positions) {}

    /// Packs all layers, once. `what` names the model in messages. Errors: config_error (number of layers, a tensor's
    /// shape).
    void pack(const char* what, std::span<const layer_weights> weights, projection stacking,
              const packed_observer* on_packed) {
        if (size_of(weights) != shape_->layers) {
            raise<config_error>(what, ": num_hidden_layers is ", shape_->layers, ", the weights have ", weights.size());
        }
        layers_.reserve(weights.size());
        for (const layer_weights& layer : weights) {
            layers_.emplace_back(ops_, *shape_, layer, stacking);
            for (const tensor_view& w : {layer.q, layer.k, layer.v, layer.o, layer.gate, layer.up, layer.down}) {
                tell_packed(on_packed, w);
            }
        }
    }

    layer_stack(const layer_stack&) = delete;
    layer_stack& operator=(const layer_stack&) = delete;

    [[nodiscard]] Ops& ops() noexcept { return ops_; }
    [[nodiscard]] Observer& observer() noexcept { return observer_; }
    [[nodiscard]] rope_positions& rope() noexcept { return rope_; }
    [[nodiscard]] layer_workspace<Ops>& work() noexcept { return work_; }

    /// What forwards of m rows on this cache have in common, for replayed().
    [[nodiscard]] replay_key key(const Cache& cache, index m) const {
        replay_key k;
        k.model = identity_;
        k.cache = identity_of(cache);
        k.rows = m;
        k.workspace = work_.capacity();
        k.table = rope_.table().identity();
        return k;
    }

    [[nodiscard]] Cache make_cache(index capacity) {
        rope_.reserve((std::min)(capacity, shape_->max_positions));
        return Cache(shape_->layers, shape_->kv_heads, shape_->head_dim, capacity);
    }

    /// Refuses positions that cache or model have no room for. Errors: config_error; `what` names the call.
    void check_room(const char* what, index position, index count, const Cache& cache) const {
        if (position + count > cache.capacity() || position + count > shape_->max_positions) {
            raise<config_error>(what, ": positions ", position, " .. ", position + count - 1, " need more room than ",
                                (std::min<index>)(cache.capacity(), shape_->max_positions));
        }
    }

    /// Makes room for m rows at positions from `position` on; call it before hidden rows are written.
    void reserve(index position, index m) {
        rope_.reserve(position + m);
        work_.reserve(*shape_, m);
    }

    /// Takes the rows of work().hidden(m) through all layers. Their K and V are written behind what is cached; the
    /// cache keeps its length. `after(layer)` is called after each layer.
    template <class After>
    void run(Cache& cache, index position, index m, After after) {
        for (index l = 0; l < shape_->layers; ++l) {
            const decoder_layer<Ops>& layer = layers_[static_cast<std::size_t>(l)];
            layer.project(ops_, *shape_, rope_.table(), position, work_, m);
            show("q", l, position, work_.q(m));
            show("k", l, position, work_.k(m));
            show("v", l, position, work_.v(m));
            attend_rows(ops_, attention(), *shape_, l, cache, position, work_, m);
            show("attention", l, position, work_.attended(m));
            layer.finish(ops_, *shape_, work_, m);
            show("hidden", l, position, work_.hidden(m));
            after(l);
        }
    }

    /// K and V rows of one layer for context rows, as decoder_layer::inject. Shapes: context (c, d), kv (c, 2*g*e).
    void inject(index layer, index position, matrix_view<const scalar, space> context, rows kv) const {
        layers_[static_cast<std::size_t>(layer)].inject(ops_, *shape_, rope_.table(), position, context, kv);
    }

    /// The same for rows that the stacked projections gave.
    void finish_context(index layer, index position, rows kv) const {
        layers_[static_cast<std::size_t>(layer)].finish_context(ops_, *shape_, rope_.table(), position, kv);
    }

    /// Tells the observer of rows on their way.
    void show(std::string_view name, index layer, index position, matrix_view<const scalar, space> values) {
        if constexpr (std::is_same_v<scalar, float>) {
            notify<tensor_event<space>>(observer_, [&] { return tensor_event<space>{name, layer, position, values}; });
        }
    }

private:
    [[nodiscard]] const auto& attention() const noexcept {
        if constexpr (std::is_same_v<Attention, Ops>) {
            return ops_;  // one object, one thread count
        } else {
            return attention_;
        }
    }

    const transformer_shape* shape_;
    Ops ops_;
    Attention attention_;
    Observer observer_;
    rope_positions rope_;
    std::vector<decoder_layer<Ops>> layers_;
    layer_workspace<Ops> work_;
    std::uint64_t identity_ = next_identity();
};

DFLASH_END_NAMESPACE
