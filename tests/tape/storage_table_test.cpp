#include "tape/storage_table.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace retrace::test::storage_table {

TEST(StorageTable, ViewsOfOneStorageHaveOneId) {
  StorageTable table;
  const at::Tensor x = at::ones({4, 4});
  const StorageId id = table.find_or_add(x);
  EXPECT_EQ(table.find_or_add(x.t()), id);
  EXPECT_EQ(table.find_or_add(x[2]), id);
  EXPECT_NE(table.find_or_add(at::ones({4})), id);
  EXPECT_EQ(table.find(at::ones({4}).storage()), kNone);
}

TEST(StorageTable, AnAddressThatIsUsedAgainIsNotMistakenForItsPredecessor) {
  StorageTable table;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(table.find_or_add(at::ones({4})), i);
}

TEST(StorageTable, AWriteInPlaceShowsUntilItIsExpected) {
  StorageTable table;
  at::Tensor x = at::ones({4});
  StorageRecord& record = table[table.find_or_add(x)];
  EXPECT_TRUE(record.unchanged());
  x.view({2, 2}).add_(1);
  EXPECT_FALSE(record.unchanged());
  EXPECT_FALSE(record.living());
  record.expect_current();
  EXPECT_TRUE(record.unchanged());
  EXPECT_TRUE(record.living());
}

TEST(StorageTable, AWriteThroughAViewThatCountsForItselfShowsOnceItsCounterIsKnown) {
  StorageTable table;
  at::Tensor x = at::ones({4});
  const StorageId id = table.find_or_add(x);
  at::Tensor view = at::_unsafe_view(x, {2, 2});
  view.add_(1);
  EXPECT_TRUE(table[id].unchanged()) << "LibTorch counts it after all: add_counter() is needed no more";
  table.add_counter(view);
  EXPECT_TRUE(table[id].unchanged());
  view.add_(1);
  EXPECT_FALSE(table[id].unchanged());
}

TEST(StorageTable, HoldsNoContent) {
  StorageTable table;
  at::Tensor x = at::ones({4});
  const StorageId id = table.find_or_add(x);
  EXPECT_TRUE(table[id].is(x.storage()));
  EXPECT_TRUE(table[id].living());
  x = at::Tensor();
  EXPECT_FALSE(table[id].living());
}

TEST(StorageTable, AnAliasIsFoundUnlessItsStorageWasKnown) {
  StorageTable table;
  const at::Tensor known = at::ones({4}), made = at::ones({4});
  const StorageId id = table.find_or_add(known);
  table[id].current = 3;
  table.add_alias(known.storage(), known.unsafeGetTensorImpl()->version_counter(), 7);
  table.add_alias(made.storage(), made.unsafeGetTensorImpl()->version_counter(), 7);
  EXPECT_EQ(table[table.find(known.storage())].current, 3);
  EXPECT_EQ(table[table.find(made.storage())].current, 7);
  table.forget_addresses();
  EXPECT_EQ(table.find(made.storage()), kNone);
}

}  // namespace retrace::test::storage_table
