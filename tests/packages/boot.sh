#!/bin/sh
# boot.sh FOLDER: makes FOLDER/root, which overlay.sh has made, the root, installs the packages of /mnt, and becomes systemd.
#
# Run by overlay.sh as process 1 of its name space, in a control group name space of its own. The kernel's settings are
# out of systemd's reach (/proc/sys and /sys are read-only), devices are the harmless ones. The target it starts
# is empty: tests start what they want.
set -e
exec >&2
root=$1/root
chroot "$root" sh -c 'dpkg --force-unsafe-io --no-triggers -i /mnt/*.deb >/dev/null'

umount -l "$root/sys" "$root/dev"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 none "$root/sys/fs/cgroup"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
touch "$root/dev/console"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue" "$root/dev/hugepages"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t mqueue mqueue "$root/dev/mqueue"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t hugetlbfs none "$root/dev/hugepages"

units=$root/etc/systemd/system
mkdir -p "$units/speedyloaderd.service.d"
printf '[Unit]\nDefaultDependencies=no\n' >"$units/nothing.target"
printf '[Service]\nWatchdogSec=2\n' >"$units/speedyloaderd.service.d/quick.conf"
for unit in systemd-sysctl systemd-modules-load systemd-udevd systemd-udev-trigger systemd-timesyncd systemd-random-seed; do
    ln -sf /dev/null "$units/$unit.service"
done

mkdir "$root/before"
cd "$root"
pivot_root . before
umount -l /before
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=nothing.target \
    --log-target=journal-or-kmsg --log-level=warning --show-status=no
