#!/bin/sh
# overlay.sh FOLDER SHARED [COMMAND...]: this machine's files under FOLDER/root, where every change stays in memory and
# goes away.
#
# Run by machine.py in a mount and a PID name space of its own; SHARED is seen there as /mnt. Prints its process id
# outside of that name space once all is ready, and becomes COMMAND, or waits to be killed.
set -e
folder=$1
# Before /proc is another one.
outside=$(awk '/^PPid:/ { print $2 }' /proc/self/status)
mount --make-rprivate /
mount -t tmpfs -o size=1g tmpfs "$folder"
mkdir "$folder/changes" "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/changes,workdir=$folder/work" "$folder/root"
mount -t proc proc "$folder/root/proc"
mount --rbind /dev "$folder/root/dev"
mount --rbind /sys "$folder/root/sys"
mount -t tmpfs tmpfs "$folder/root/run"
mount -t tmpfs tmpfs "$folder/root/tmp"
chmod 1777 "$folder/root/tmp"
mount --bind "$2" "$folder/root/mnt"
echo "$outside"
shift 2
if [ $# -gt 0 ]; then exec "$@"; fi
exec sleep infinity
