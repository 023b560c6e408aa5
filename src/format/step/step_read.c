/* The reader of the runtime's files. */
#include <step_runtime/step_file.h>
