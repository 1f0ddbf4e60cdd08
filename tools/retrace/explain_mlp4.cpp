#include "commands.h"
namespace retrace::cli {
int explain_mlp4(bool) { throw BadInput("not yet"); }
}  // namespace retrace::cli
