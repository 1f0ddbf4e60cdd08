#include "device/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <gtest/gtest.h>

#include <retrace/errors.h>
#include <retrace/memory.h>

namespace retrace::test::devices {

TEST(Devices, TheCpuIsFoundByItsNameAndByItsType) {
  EXPECT_EQ(&device_of("cpu"), &cpu());
  EXPECT_EQ(&device_of(c10::DeviceType::CPU), &cpu());
}

TEST(Devices, AnotherIsRefusedByItsName) {
  for (const char* const name : {"cuda:1", "", "CPU"}) {
    EXPECT_THROW(device_of(name), NotSupported) << name;
    EXPECT_THROW(memory::live_bytes(memory::Device{name}), NotSupported) << name;
  }
  try {
    memory::set_limit(1, {"cuda:1"});
    FAIL() << "a limit was set on a device that is not counted";
  } catch (const NotSupported& error) {
    EXPECT_NE(std::string(error.what()).find("'cuda:1'"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(memory::limit());
  EXPECT_THROW(device_of(c10::DeviceType::CUDA), NotSupported);
}

TEST(Devices, TheCpuIsTheDefaultOfTheByteCounter) {
  const auto held = torch::zeros({1000});
  EXPECT_EQ(memory::live_bytes(), memory::live_bytes(memory::Device{"cpu"}));
  EXPECT_EQ(memory::live_bytes(memory::Owner::other), memory::live_bytes(memory::Owner::other, {"cpu"}));
  memory::reset_peak({"cpu"});
  EXPECT_EQ(memory::peak_bytes(), memory::live().total());
}

TEST(Devices, ACopiedGeneratorDrawsTheSameAndLeavesTheOtherAlone) {
  at::Generator one = at::make_generator<at::CPUGeneratorImpl>(7);
  torch::randn({3}, one);  // a normal number is left over
  at::Generator other = cpu().copy_of(one);
  EXPECT_TRUE(cpu().is_same_state(one, other));
  const auto first = torch::randn({5}, one);
  EXPECT_FALSE(cpu().is_same_state(one, other));
  EXPECT_TRUE(first.equal(torch::randn({5}, other)));
  at::Generator third = at::make_generator<at::CPUGeneratorImpl>(8);
  cpu().set_state(third, one);
  EXPECT_TRUE(torch::rand({5}, third).equal(torch::rand({5}, one)));
}

}  // namespace retrace::test::devices
