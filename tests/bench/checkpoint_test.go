//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

var aimCRIU = atMost(1.25, "≤ 1.25")

// fittingSizes are the sizes of programs that this machine has room for, for the program and
// for plain criu's images on a tmpfs, and a line for each size without room.
func fittingSizes(t *testing.T) (fit []int, left []figure) {
	for _, s := range strings.Split(*sizes, ",") {
		mib, err := strconv.Atoi(s)
		if err != nil || mib < 1 {
			t.Fatalf("-sizes %s: want numbers of MiB, as in 1024,8192", *sizes)
		}
		need, free := int64(2*mib+3072), readMeminfo("MemAvailable")>>20
		if need > free {
			left = append(left, figure{what: fmt.Sprintf("%d MiB: left out, for it needs %d MiB of memory, and there were %d", mib, need, free)})
			continue
		}
		fit = append(fit, mib)
	}
	return fit, left
}

// turnsOf is how often a program of so many MiB is captured.
func turnsOf(mib int) int { return min(7, max(2, 7*1024/mib)) }

// measureCheckpoints returns the figures of checkpoints of a job with much memory, every page of the memory new to the store,
// against plain criu, which writes that very program to a tmpfs: first straight into the store, then by way of a
// staging folder that is such a tmpfs.
func measureCheckpoints(t *testing.T, c *cluster) (all []figure) {
	fit, left := fittingSizes(t)
	for seed, way := range []struct{ what, until, conf string }{
		{"into the store: ", "all is in the store", ""},
		{"staged: ", "all is in the stage", "staging: {folder: /dev/shm/stage}"},
	} {
		if way.conf != "" {
			c.runScript(t, "n1", "root", "mkdir -m 700 /dev/shm/stage; echo '"+way.conf+"' >>/etc/singularity-slurm/proxyd.yaml")
			c.runMinicluster(t, "restart", "n1", "proxyd")
		}
		for _, mib := range fit {
			all = append(all, c.checkpointsOf(t, mib, 1000*(2*mib+seed), way.what, way.until)...)
		}
	}
	return append(all, left...)
}

func (c *cluster) checkpointsOf(t *testing.T, mib, seed int, way, until string) []figure {
	a := c.startAgent(t, fmt.Sprint("hold-", way[:2], mib), "-w n1 --singularity", plainAgent)
	defer a.dismiss()
	var waited, captured, stopped turns
	var cost usage
	for i := range turnsOf(mib) + 1 {
		if said := a.giveOrder(t, fmt.Sprintf("fill %d %d", mib, seed+i)); said != "filled" {
			t.Fatalf("the answer to the order to fill memory: %v", said)
		}
		var p float64
		if i%2 == 0 {
			p = c.plainDump(t, a)
		}
		m := c.measurePauses(t, a)
		if i%2 == 1 {
			p = c.plainDump(t, a)
		}
		t.Logf("%d MiB: plain %.2f s, %+v", mib, p, m)
		if i == 0 {
			continue // the machine's memory is slow at the first touch
		}
		captured.add(p, m.captured)
		stopped.add(p, m.stopped)
		waited.add(p, m.waited)
		cost.add(m.usage)
	}
	what := fmt.Sprintf("job of %d MiB, %s", mib, way)
	return []figure{
		captured.ratio(what+"from its freeze until "+until+", and plain criu dump to tmpfs", formatSeconds, aimCRIU),
		stopped.ratio(what+"longest that its program stood still, and that dump", formatSeconds, noAim),
		waited.ratio(what+"singctl checkpoint, and that dump", formatSeconds, noAim),
		figureAlone(what+"brought into the store by a core-second of proxyd", megabytesPS, atLeast(400e6, "≥ 400 MB/s"), cost.logical/cost.busy),
		figureAlone(what+"most memory of proxyd", formatMebibytes, atMost(256<<20, "≤ 256 MiB"), cost.peak),
	}
}

// checkpointTimes has the durations of a checkpoint, in seconds.
type checkpointTimes struct {
	waited   float64 // for singctl
	captured float64 // from the freeze until the job goes on
	stopped  float64 // the longest that the program noticed
	usage
}

// usage has the resources that proxyd used.
type usage struct {
	logical    float64 // bytes captured
	stored     float64 // bytes that were new to the store
	busy, peak float64 // seconds of a processor, bytes of memory
}

func (u *usage) add(v usage) {
	u.logical, u.busy, u.peak = u.logical+v.logical, u.busy+v.busy, max(u.peak, v.peak)
}

// proxydUsage prints the usage of proxyd: user ticks, system ticks, and the peak of memory in kilobytes.
const proxydUsage = `p=$(pgrep -xo proxyd); read -r -a f </proc/$p/stat; echo ${f[13]} ${f[14]} $(awk '/^VmHWM:/ { print $2 }' /proc/$p/status); `

// measurePauses makes a checkpoint while the program looks at the clock.
func (c *cluster) measurePauses(t *testing.T, a *agent) (m checkpointTimes) {
	t.Helper()
	usage := func(script string) (ticks, peak float64) {
		var user, system float64
		said := c.runScript(t, "n1", "root", script)
		if _, err := fmt.Sscan(said, &user, &system, &peak); err != nil {
			t.Fatalf("proxyd's usage is printed as %q: %v", said, err)
		}
		return user + system, peak
	}
	if _, err := a.in.WriteString("gap 0\n"); err != nil {
		t.Fatal(err)
	}
	before, _ := usage(proxydUsage + "echo 5 >/proc/$p/clear_refs") // from here on, the peak is a new one
	k, waited := c.captureJob(t, a.job)
	after, peak := usage(proxydUsage)
	m.waited, m.captured = waited, k.phasesTook("freeze", "drain", "halt", "dump", "commit")
	m.stopped = a.askNumbers(t, "enough", 1)[0] / 1e9
	m.logical, m.stored, m.busy, m.peak = float64(k.Logical), float64(k.Stored), (after-before)/100, peak*1024
	return m
}

// plainDump has plain criu write the agent's process to the node's tmpfs, from the same
// namespaces as proxyd's criu, and returns how long the dump took, in seconds. The images are made and
// removed outside of that time.
func (c *cluster) plainDump(t *testing.T, a *agent) (s float64) {
	t.Helper()
	said := c.runScript(t, "n1", "root", `
		p=$(pgrep -x agent -u alice)
		dir=$(mktemp -d /dev/shm/plain.XXXXXX)
		trap 'rm -rf $dir' EXIT
		exec 9<$dir
		began=$EPOCHREALTIME
		nsenter --wd=/proc/self/fd/9 --mount=/proc/$p/ns/mnt --net=/proc/$p/ns/net --uts=/proc/$p/ns/uts --ipc=/proc/$p/ns/ipc \
			--time=/proc/$p/ns/time --pid=/proc/$p/ns/pid -- setpriv --ruid 1001 --rgid 1001 --keep-groups -- \
			criu dump --no-default-config -t $(awk '/^NSpid:/ { print $NF }' /proc/$p/status) -D . -o dump.log --leave-running \
			--tcp-established --network-lock skip --file-locks --ext-unix-sk --manage-cgroups=ignore >&2 ||
			{ grep Error $dir/dump.log >&2; exit 1; }
		echo $began $EPOCHREALTIME $(du -sm $dir | cut -f1)`)
	var began, ended, size float64
	if _, err := fmt.Sscan(said, &began, &ended, &size); err != nil {
		t.Fatalf("plain criu: %q: %v", said, err)
	}
	return ended - began
}
