#include "tessera/runtime/in_flight.h"

#include <gtest/gtest.h>

#include <array>

namespace tessera {
namespace {

class InFlightTest : public testing::Test {
 protected:
  ByteRange bytes(std::size_t begin, std::size_t end) const {
    return {memory.data() + begin, memory.data() + end};
  }
  std::int64_t reading(ByteRange range) { return in_flight.wait_before({&range, 1}, {}); }
  std::int64_t writing(ByteRange range) { return in_flight.wait_before({}, {&range, 1}); }

  std::array<std::byte, 100> memory{};
  InFlight in_flight;
};

TEST_F(InFlightTest, WhatNobodyUsesIsNotWaitedFor) {
  EXPECT_EQ(reading(bytes(0, 100)), -1);
  in_flight.start({bytes(0, 10)}, {bytes(20, 30)});
  EXPECT_EQ(reading(bytes(10, 20)), -1);
  EXPECT_EQ(writing(bytes(30, 40)), -1);
  EXPECT_FALSE(in_flight.empty());
}

TEST_F(InFlightTest, ReadersWaitForWritersAndWritersForBoth) {
  const auto start = [&] { return in_flight.start({bytes(0, 10)}, {bytes(20, 30)}); };
  start();
  EXPECT_EQ(reading(bytes(0, 10)), -1) << "both only read";
  EXPECT_EQ(reading(bytes(29, 40)), 0);
  start();
  EXPECT_EQ(writing(bytes(9, 11)), 1) << "the arena gives bytes away that a collective still reads";
  start();
  EXPECT_EQ(writing(bytes(19, 21)), 2);
  EXPECT_TRUE(in_flight.empty());
}

TEST_F(InFlightTest, TheLastConflictCountsAndEndsThoseBeforeIt) {
  in_flight.start({}, {bytes(0, 10)});
  in_flight.start({}, {bytes(10, 20)});
  in_flight.start({}, {bytes(20, 30)});
  EXPECT_EQ(reading(bytes(5, 15)), 1);
  EXPECT_EQ(reading(bytes(0, 10)), -1) << "number 0 ended before number 1";
  EXPECT_EQ(reading(bytes(20, 30)), 2);
  EXPECT_TRUE(in_flight.empty());
}

TEST_F(InFlightTest, AllMeansTheLatest) {
  EXPECT_EQ(in_flight.wait_for_all(), -1);
  in_flight.start({}, {bytes(0, 10)});
  in_flight.start({}, {bytes(10, 20)});
  EXPECT_EQ(in_flight.wait_for_all(), 1);
  EXPECT_EQ(in_flight.start({}, {}), 2) << "numbers go on";
}

TEST_F(InFlightTest, NothingConflictsWithNoBytes) {
  in_flight.start({bytes(5, 5)}, {bytes(5, 5)});
  EXPECT_EQ(writing(bytes(0, 100)), -1);
}

}  // namespace
}  // namespace tessera
