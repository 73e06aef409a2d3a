// Where the embedding's gradient takes its terms from: the places of each token that occurs, sequence by sequence, and
// which of these leaves the tree adds to which. Sequences without the token have leaves of zeros, which change nothing.
#pragma once

#include <algorithm>
#include <vector>

#include "src/step/machine.h"
#include "src/step/orders.h"

namespace hw4::step {

struct TokenLeaves {
    std::vector<int32_t> places; // tokens in the order of their leaves; ~place where a chain of the leaf begins
    std::vector<int32_t> begins; // the first place of each leaf, and of the leaf after the last
    std::vector<int32_t> joins;  // (left, right): leaves, right is added to left
    std::vector<int32_t> tokens; // (row of the table, its first leaf, its first join), and the last token's end

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
                const auto chain = [&](int32_t place) { return place % of.context / kChain; };
                const bool new_leaf = nodes.empty() || nodes.back().sequence != sequence;
                if (new_leaf) {
                    nodes.push_back({sequence, next_leaf()});
                    begins.push_back(static_cast<int32_t>(places.size()));
                }
                places.push_back(new_leaf || chain(sorted[i]) != chain(sorted[i - 1]) ? ~sorted[i] : sorted[i]);
            }
            add_joins(nodes);
        }
        add_token(-1);
        begins.push_back(static_cast<int32_t>(places.size()));
    }

    int64_t leaf_count() const { return static_cast<int64_t>(begins.size()) - 1; }
    int64_t token_count() const { return static_cast<int64_t>(tokens.size() / 3) - 1; }

private:
    struct Node {
        int64_t sequence; // then its number among the nodes of a level
        int32_t leaf;
    };

    int32_t next_leaf() const { return static_cast<int32_t>(begins.size()); }
    void add_token(int32_t id) {
        tokens.insert(tokens.end(), {id, next_leaf(), static_cast<int32_t>(joins.size() / 2)});
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
};

} // namespace hw4::step
