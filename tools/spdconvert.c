/* The front end under the name of the MSVC tool. */
#include <os/system.h>

#include "commands.h"

int main(int argc, char **argv)
{
    os_start(&argc, &argv);
    return cmd_spdconvert(argc, argv);
}
