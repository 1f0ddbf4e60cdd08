#include <retrace/policy.h>

int main() { return retrace::every(4).name() == "every:4" ? 0 : 1; }
