// Whether the card's own instruction gives the powers of 2 of the contract fixed16.
#pragma once

namespace hw4::gpu {

// Of the card in use: every weight and every tile's weight that can come up, compared with the table; once in a process
// for each card, in microseconds.
bool card_follows_table();

} // namespace hw4::gpu
