// Every public header includes this one first. A compiler goes on after #error, and would bury it under pages of errors
// from what follows; it stops at a file that it cannot find, and prints the name.
#pragma once

#if __cplusplus < 202002L
#include <Retrace needs C++20: compile with -std=c++20>
#endif
