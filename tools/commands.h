/* The commands of spgo. argv[0] is the command's own name; the result is the exit code. */
#ifndef COMMANDS_H
#define COMMANDS_H

int cmd_dump(int argc, char **argv);
int cmd_filter(int argc, char **argv);
int cmd_fold(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_overlap(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_probe_control(int argc, char **argv); /* mark, start, stop, status */
int cmd_probe_diff(int argc, char **argv);
int cmd_probe_export(int argc, char **argv);
int cmd_probe_record(int argc, char **argv);
int cmd_probe_report(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_spdconvert(int argc, char **argv);
int cmd_spddump(int argc, char **argv);
int cmd_sptaggregate(int argc, char **argv);
int cmd_sptdump(int argc, char **argv);
int cmd_symbolize(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
