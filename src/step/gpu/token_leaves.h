// Where the embedding's gradient takes its terms from: the places of each token that occurs, sequence by sequence, and
// which of these leaves the tree adds to which. In host memory, as one array for the GPU (rows.h, EmbeddingLeaves).
#pragma once

#include <algorithm>
#include <vector>

#include "src/step/machine.h"
#include "src/step/orders.h"

namespace hw4::step {

struct TokenLeaves {
    std::vector<int32_t> places, begins, joins, tokens;

    explicit TokenLeaves(const Tokens& of) {
        std::vector<int32_t> sorted(of.inputs.size());
        for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<int32_t>(i);
        const auto token = [&](int32_t place) { return of.inputs[static_cast<size_t>(place)]; };
        std::stable_sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) { return token(a) < token(b); });
        for (size_t i = 0; i < sorted.size();) {
            const int32_t id = token(sorted[i]);
            add_token(id);
            std::vector<Node> nodes;
            for (; i < sorted.size() && token(sorted[i]) == id; ++i) {
                const int64_t sequence = sorted[i] / of.context;
                const int64_t chain = sorted[i] % of.context / kChain;
                const bool new_leaf = nodes.empty() || nodes.back().sequence != sequence;
                if (new_leaf) {
                    nodes.push_back({sequence, leaf_count()});
                    begins.push_back(static_cast<int32_t>(places.size()));
                }
                places.push_back(new_leaf || chain != last_chain_ ? ~sorted[i] : sorted[i]);
                last_chain_ = chain;
            }
            add_joins(nodes);
        }
        add_token(-1);
        begins.push_back(static_cast<int32_t>(places.size()));
    }

    int32_t leaf_count() const { return static_cast<int32_t>(begins.size()); }

private:
    struct Node {
        int64_t sequence; // then its number among the nodes of a level
        int32_t leaf;
    };

    void add_token(int32_t id) {
        tokens.insert(tokens.end(), {id, leaf_count(), static_cast<int32_t>(joins.size() / 2)});
    }

    // Level by level, until one is left.
    void add_joins(std::vector<Node>& nodes) {
        while (nodes.size() > 1) {
            size_t kept = 0;
            for (const Node& node : nodes) {
                const int64_t above = node.sequence / 2;
                if (kept > 0 && nodes[kept - 1].sequence == above)
                    joins.insert(joins.end(), {nodes[kept - 1].leaf, node.leaf});
                else
                    nodes[kept++] = {above, node.leaf};
            }
            nodes.resize(kept);
        }
    }

    int64_t last_chain_ = 0;
};

} // namespace hw4::step
