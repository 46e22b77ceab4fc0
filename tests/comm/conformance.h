// What every communicator must do, as cases that run on all ranks of a world and throw when something is
// wrong. Run over comm/local by local_conformance_test and over comm/mpi by mpi_conformance under mpirun.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "comm/reference.h"

namespace tessera::conformance {

// Around a group of elements, around what travels inside of a message (4 KiB), around a block, and several
// blocks; few of them divide by a number of ranks.
inline const std::vector<std::int64_t> kCounts{0, 1, 7, 63, 65, 1023, 1024, 1025, 4999, 32768, 70001};
inline const std::vector<Strips> kStrips{{1, 0},  {0, 3},   {1, 1},    {1, 5},    {3, 7},
                                         {64, 1}, {7, 129}, {2, 5003}, {33, 301}, {1, 20011}};

inline void all_reduce(Communicator& comm) {
  for_each_dtype([&]<class T>(T) {
    for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
      for (const std::int64_t count : kCounts) {
        const int seed = static_cast<int>(count) + 1;
        std::vector<T> data = values<T>(seed, comm.rank(), count), expected(data.size());
        for (std::int64_t i = 0; i < count; ++i) expected[i] = reduced<T>(seed, comm.size(), i, reduction);
        comm.all_reduce(data.data(), count, dtype_of<T>, reduction);
        expect_same_bits(data, expected, describe("all_reduce", 1, count, dtype_of<T>, comm));
      }
    }
  });
}

inline void all_reduce_keeps_nan(Communicator& comm) {
  for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
    for (int bad = 0; bad < comm.size(); ++bad) {
      std::vector<float> data(3, comm.rank() == bad ? NAN : 1.0f);
      comm.all_reduce(data.data(), 3, DType::f32, reduction);
      TS_CHECK(std::isnan(data[0]) && std::isnan(data[2]), "rank {}'s NaN was lost", bad);
    }
  }
}

template <class T>
void all_gather_strips(Communicator& comm, Strips strips) {
  const std::vector<T> part = values<T>(5, comm.rank(), strips.outer * strips.inner);
  std::vector<T> whole(part.size() * static_cast<std::size_t>(comm.size())), expected;
  for (std::int64_t outer = 0; outer < strips.outer; ++outer) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      for (std::int64_t i = 0; i < strips.inner; ++i) {
        expected.push_back(value<T>(5, rank, outer * strips.inner + i));
      }
    }
  }
  comm.all_gather(part.data(), whole.data(), strips, dtype_of<T>);
  expect_same_bits(whole, expected, describe("all_gather", strips.outer, strips.inner, dtype_of<T>, comm));
  if (strips.outer != 1) return;
  whole.assign(whole.size(), T());
  T* place = whole.data() + comm.rank() * strips.inner;
  std::ranges::copy(part, place);
  comm.all_gather(place, whole.data(), strips, dtype_of<T>);
  expect_same_bits(whole, expected, describe("all_gather in place", 1, strips.inner, dtype_of<T>, comm));
}

inline void all_gather(Communicator& comm) {
  for_each_dtype([&]<class T>(T) {
    for (const Strips strips : kStrips) all_gather_strips<T>(comm, strips);
  });
}

inline void reduce_scatter(Communicator& comm) {
  for_each_dtype([&]<class T>(T) {
    for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
      for (const Strips strips : kStrips) {
        const auto [outer_count, inner] = strips;
        std::vector<T> whole = values<T>(9, comm.rank(), outer_count * inner * comm.size());
        std::vector<T> part(static_cast<std::size_t>(outer_count * inner)), expected;
        for (std::int64_t outer = 0; outer < outer_count; ++outer) {
          for (std::int64_t i = 0; i < inner; ++i) {
            expected.push_back(
                reduced<T>(9, comm.size(), (outer * comm.size() + comm.rank()) * inner + i, reduction));
          }
        }
        comm.reduce_scatter(whole.data(), part.data(), strips, dtype_of<T>, reduction);
        expect_same_bits(part, expected, describe("reduce_scatter", outer_count, inner, dtype_of<T>, comm));
        if (outer_count != 1) continue;
        T* place = whole.data() + comm.rank() * inner;
        comm.reduce_scatter(whole.data(), place, strips, dtype_of<T>, reduction);
        part.assign(place, place + inner);
        expect_same_bits(part, expected, describe("reduce_scatter in place", 1, inner, dtype_of<T>, comm));
      }
    }
  });
}

// Several MiB, which may go in pieces or another way. Every 101st element is compared.
inline void long_tensors(Communicator& comm) {
  const std::int64_t count = 2500003;
  std::vector<float> data = values<float>(2, comm.rank(), count);
  comm.all_reduce(data.data(), count, DType::f32, Reduction::sum);
  const auto sample = [&](const char* call, const std::vector<float>& found, auto expected) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(found.size()); i += 101) {
      TS_CHECK(found[i] == expected(i), "long {}, rank {} of {}, element {}: found {}, expected {}", call,
               comm.rank(), comm.size(), i, found[i], expected(i));
    }
  };
  sample("all_reduce", data,
         [&](std::int64_t i) { return reduced<float>(2, comm.size(), i, Reduction::sum); });

  const std::int64_t n = comm.size(), inner = 300001;
  std::vector<float> part = values<float>(4, comm.rank(), 2 * inner), whole(part.size() * comm.size());
  comm.all_gather(part.data(), whole.data(), {2, inner}, DType::f32);
  sample("all_gather", whole, [&](std::int64_t i) {
    const std::int64_t outer = i / (n * inner), rank = i / inner % n;
    return value<float>(4, static_cast<int>(rank), outer * inner + i % inner);
  });

  whole = values<float>(6, comm.rank(), 2 * n * inner);
  comm.reduce_scatter(whole.data(), part.data(), {2, inner}, DType::f32, Reduction::sum);
  sample("reduce_scatter", part, [&](std::int64_t i) {
    const std::int64_t elem = (i / inner * n + comm.rank()) * inner + i % inner;
    return reduced<float>(6, comm.size(), elem, Reduction::sum);
  });
}

inline void broadcast(Communicator& comm) {
  for (const std::int64_t count : kCounts) {
    for (int root = 0; root < comm.size(); ++root) {
      std::vector<float> data = values<float>(3, comm.rank(), count);
      comm.broadcast(data.data(), count * 4, root);
      expect_same_bits(data, values<float>(3, root, count),
                       describe("broadcast", root, count, DType::f32, comm));
    }
  }
}

// Short calls end with one meeting of the ranks: a fast rank must not overwrite what a slow one still reads.
inline void many_calls_in_a_row(Communicator& comm) {
  for (int round = 0; round < 200; ++round) {
    const std::int64_t count = round % 50 == 49 ? 30000 : 1 + round % 7;
    std::vector<float> data = values<float>(round, comm.rank(), count), expected(data.size());
    for (std::int64_t i = 0; i < count; ++i) {
      expected[i] = reduced<float>(round, comm.size(), i, Reduction::sum);
    }
    comm.all_reduce(data.data(), count, DType::f32, Reduction::sum);
    expect_same_bits(data, expected, describe("all_reduce in a row", round, count, DType::f32, comm));
    if (round % 3 == 0) comm.barrier();
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(comm.size()));
    const std::int32_t own = round + comm.rank();
    comm.all_gather(&own, ranks.data(), {1, 1}, DType::i32);
    for (int rank = 0; rank < comm.size(); ++rank) {
      TS_CHECK(ranks[rank] == round + rank, "round {}: rank {} sent {}", round, rank, ranks[rank]);
    }
  }
}

// Everyone sends to everyone, itself included, before anyone receives.
inline void sends_before_receives(Communicator& comm) {
  for (const std::int64_t count : {0, 1, 1000, 50021}) {
    for (int to = 0; to < comm.size(); ++to) {
      for (int tag = 0; tag < 3; ++tag) {
        const std::vector<float> data = values<float>(100 * to + tag, comm.rank(), count);
        comm.send(data.data(), count * 4, to, tag);
      }
    }
    for (int from = comm.size() - 1; from >= 0; --from) {
      for (int tag = 2; tag >= 0; --tag) {  // the tags in another order than they were sent in
        std::vector<float> data(static_cast<std::size_t>(count));
        comm.receive(data.data(), count * 4, from, tag);
        expect_same_bits(data, values<float>(100 * comm.rank() + tag, from, count),
                         describe("receive", tag, count, DType::f32, comm));
      }
    }
  }
}

// One tag keeps its order while another overtakes it, and sizes change from message to message.
inline void messages_keep_their_order(Communicator& comm) {
  const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  const auto count_of = [](int number) { return 1 + (number * 7919) % 5000; };
  for (int number = 0; number < 40; ++number) {
    const std::vector<float> data = values<float>(number, comm.rank(), count_of(number));
    comm.send(data.data(), count_of(number) * 4, next, number % 2 == 0 ? 4 : kMaxTag);
  }
  for (const int first : {1, 0}) {
    for (int number = first; number < 40; number += 2) {
      std::vector<float> data(static_cast<std::size_t>(count_of(number)));
      comm.receive(data.data(), count_of(number) * 4, previous, number % 2 == 0 ? 4 : kMaxTag);
      expect_same_bits(data, values<float>(number, previous, count_of(number)),
                       describe("message", number, count_of(number), DType::f32, comm));
    }
  }
}

// As a pipeline does: collectives between messages that are still on their way.
inline void messages_across_collectives(Communicator& comm) {
  const int other = comm.size() - 1 - comm.rank();
  const std::vector<double> sent = values<double>(1, comm.rank(), 50000);
  comm.send(sent.data(), 50000 * 8, other, 1);
  many_calls_in_a_row(comm);
  std::vector<double> found(50000);
  comm.receive(found.data(), 50000 * 8, other, 1);
  expect_same_bits(found, values<double>(1, other, 50000), "message across collectives");
}

inline void check_members(Communicator& group, const std::vector<std::int32_t>& world_ranks, int world_rank) {
  std::vector<std::int32_t> members(static_cast<std::size_t>(group.size()));
  group.all_gather(&world_rank, members.data(), {1, 1}, DType::i32);
  TS_CHECK(members == world_ranks, "world rank {}: found a group of {}, expected {} other members",
           world_rank, members.size(), world_ranks.size());
  TS_CHECK(members[group.rank()] == world_rank, "world rank {} has the wrong rank {} in its group",
           world_rank, group.rank());
}

// A mesh [size / tp, tp], tp contiguous: rows and columns work at the same time, not in step with each other.
inline void mesh_splits(Communicator& world) {
  const int tp = world.size() % 2 == 0 ? 2 : 1;
  const int row = world.rank() / tp, column = world.rank() % tp;
  const std::unique_ptr<Communicator> rows = world.split(row, column), columns = world.split(column, row);
  std::vector<std::int32_t> in_row, in_column;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank / tp == row) in_row.push_back(rank);
    if (rank % tp == column) in_column.push_back(rank);
  }
  check_members(*rows, in_row, world.rank());
  check_members(*columns, in_column, world.rank());
  for (int i = 0; i < 5 + 10 * row; ++i) {
    std::int32_t ones = 1;
    rows->all_reduce(&ones, 1, DType::i32, Reduction::sum);
    TS_CHECK(ones == rows->size(), "a row of {} counts {}", rows->size(), ones);
  }
  sends_before_receives(*columns);
  many_calls_in_a_row(*columns);
  reduce_scatter(*rows);
}

inline void split_orders_by_key(Communicator& world) {
  const std::unique_ptr<Communicator> reversed = world.split(7, -world.rank());
  std::vector<std::int32_t> expected;
  for (int rank = world.size() - 1; rank >= 0; --rank) expected.push_back(rank);
  check_members(*reversed, expected, world.rank());
  const std::unique_ptr<Communicator> again = reversed->split(0, 0);  // equal keys: the order of the ranks
  check_members(*again, expected, world.rank());
  const std::unique_ptr<Communicator> alone = again->split(again->rank(), 0);
  check_members(*alone, {world.rank()}, world.rank());
  all_gather(*alone);
  many_calls_in_a_row(*reversed);  // sums go by the group's ranks, not by the world's
}

struct Case {
  const char* name;
  void (*run)(Communicator& world);
};

inline const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {"all_reduce", all_reduce},
      {"all_reduce_keeps_nan", all_reduce_keeps_nan},
      {"all_gather", all_gather},
      {"reduce_scatter", reduce_scatter},
      {"long_tensors", long_tensors},
      {"broadcast", broadcast},
      {"many_calls_in_a_row", many_calls_in_a_row},
      {"sends_before_receives", sends_before_receives},
      {"messages_keep_their_order", messages_keep_their_order},
      {"messages_across_collectives", messages_across_collectives},
      {"mesh_splits", mesh_splits},
      {"split_orders_by_key", split_orders_by_key},
  };
  return kCases;
}

}  // namespace tessera::conformance
