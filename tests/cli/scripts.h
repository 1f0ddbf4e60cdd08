// TorchScript files to trace, as a program would save them.
#pragma once

#include <string>

namespace retrace::test::cli {

void save_two_layer_script(const std::string& path);  // f32[n,4] to f32[n,3]; modules first and second
void save_embedding_script(const std::string& path);  // i64[n] below 10, bool[n] to a tuple of two
void save_script_without_parameters(const std::string& path);
void save_script_without_gradient(const std::string& path);  // its parameter requires none
void save_script_of_whole_numbers(const std::string& path);  // its output is int64
void save_script_without_forward(const std::string& path);

}  // namespace retrace::test::cli
