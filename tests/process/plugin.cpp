// What brings Retrace into a process that does not know it, and takes it away again.
#include "training.h"

extern "C" bool plugin_trains() { return Training().step_works(); }
