/* Help made from a command's option table. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli.h"

/* Prints the help to standard output (1) or standard error (2) and returns exit_code, or
 * CLI_FAILED if it could not be written. */
int cli_print_help(const cli_args *args, int fd, int exit_code);

#endif
