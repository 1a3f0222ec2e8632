// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const someMirror = "http://deb.example.org/debian" // never asked: the tools are fakes

// fakeTools puts an mmdebstrap before the real mmdebstrap. The fake runs script in the
// build's folder, and an apt-config that prints no settings. fakeTools skips the test without the
// right to make namespaces.
func fakeTools(t *testing.T, script string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skip: needs root, to make PID and mount namespaces")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"mmdebstrap": script, "apt-config": ""} {
		if text = "#!/bin/sh\nset -e\n" + text + "\n"; os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755) != nil {
			t.Fatal("cannot write", name)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func fakeOptions(t *testing.T) Options {
	return Options{Suite: suites[0], CacheDir: filepath.Join(t.TempDir(), "cache"), Mirror: someMirror, skipSpaceCheck: true}
}

// checkClean fails the test if the cache folder, or a process or mount there, holds
// more than want once the last process has had time to go.
func checkClean(t *testing.T, cache string, want ...string) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if left = processesIn(cache); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		t.Fatalf("processes are left: %q", left)
	}
	if m, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(m), cache+"/") {
		t.Fatalf("mounts left:\n%s", m)
	}
	if want == nil {
		return
	}
	slices.Sort(want)
	if got := listNames(t, cache); !slices.Equal(got, want) {
		t.Fatalf("the cache has %v, want %v", got, want)
	}
}

// processesIn lists the processes that work in dir, were started with its name, or
// have it as their root.
func processesIn(dir string) []string {
	var out []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		if filepath.Base(p) == fmt.Sprint(os.Getpid()) {
			continue
		}
		cmd, _ := os.ReadFile(p + "/cmdline")
		cwd, _ := os.Readlink(p + "/cwd")
		root, _ := os.Readlink(p + "/root")
		if strings.Contains(string(cmd), dir) || strings.HasPrefix(cwd, dir) || strings.HasPrefix(root, dir) {
			out = append(out, p+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return out
}

// killBuilder kills the builder that works in cache, if there is any.
func killBuilder(cache string) {
	for _, u := range processesIn(cache) {
		var pid int
		if _, err := fmt.Sscanf(u, "/proc/%d", &pid); err == nil && strings.Contains(u, BuilderArg) {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func TestBuild(t *testing.T) {
	fakeTools(t, `
		[ "$(readlink /proc/self)" != "" ] && [ $$ -lt 20 ] || echo "E: not in a PID namespace"
		[ "$LC_ALL" = C.UTF-8 ] && [ -z "$SECRET" ] || echo "E: environment"
		echo "I: extracting archives..."
		umask
		mkdir -p root/etc root/proc
		cat sources.list apt.conf
		mount -t tmpfs tmpfs root/proc; mkdir root/proc/inside
		setsid sleep 1000 & setsid sh -c "sleep 1000 & sleep 1000" &
		umount root/proc`)
	t.Setenv("SECRET", "x")
	o := fakeOptions(t)
	var heard []string
	o.Progress = func(p Progress) { heard = append(heard, p.Stage) }
	old := makeTree(t, o.CacheDir, "forky-000000000000")
	dir, err := Ensure(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !isDir(filepath.Join(dir, "etc")) || isDir(filepath.Join(dir, "proc/inside")) || isDir(old) {
		t.Errorf("%s: not the tree that was built", dir)
	}
	checkClean(t, o.CacheDir, filepath.Base(dir), "forky.lock", "forky.log")
	if !slices.Contains(heard, "unpacking essential packages") {
		t.Errorf("stages of progress %q, want %q among them", heard, "unpacking essential packages")
	}
	log, _ := os.ReadFile(filepath.Join(o.CacheDir, "forky.log"))
	for _, want := range []string{"0022\n", someMirror + " forky main\n", `Acquire::Check-Valid-Until "false";`} {
		if !strings.Contains(string(log), want) || strings.Contains(string(log), "E:") {
			t.Errorf("the log has no %q, or an error:\n%s", want, log)
		}
	}
}

func TestBuildFails(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"apt's reason", "mkdir root; echo 'E: no network'; echo 'E: mmdebstrap failed to run'; exit 100", "build forky: no network (log: %s)"},
		{"no reason", "echo; echo bye; echo; exit 7", `build forky: exit status 7 after "bye" (log: %s)`},
		{"killed", "kill -9 $$", "build forky: /…/mmdebstrap: killed by signal 9 (log: %s)"},
		{"no tree", "exit 0", "build forky: mmdebstrap made no tree (log: %s)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeTools(t, c.script)
			o := fakeOptions(t)
			_, err := Ensure(context.Background(), o)
			var be *BuildError
			if !errors.As(err, &be) {
				t.Fatalf("error %v, want a BuildError", err)
			}
			tool, _ := exec.LookPath("mmdebstrap")
			want := fmt.Sprintf(c.want, filepath.Join(o.CacheDir, "forky.log"))
			if got := strings.ReplaceAll(err.Error(), tool, "/…/mmdebstrap"); got != want {
				t.Errorf("error %s\nwant %s", got, want)
			}
			checkClean(t, o.CacheDir, "forky.lock", "forky.log")
		})
	}
}

func TestBuilderKilled(t *testing.T) {
	fakeTools(t, "setsid sleep 1000 & echo working; sleep 1000")
	o := fakeOptions(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		for !strings.Contains(fmt.Sprint(processesIn(o.CacheDir)), "sleep") && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		killBuilder(o.CacheDir)
	}()
	_, err := Ensure(ctx, o)
	want := `build forky: signal: killed after "working" (log: ` + o.CacheDir + "/forky.log)"
	if errText(err) != want {
		t.Errorf("error %v\nwant %s", err, want)
	}
	checkClean(t, o.CacheDir, "forky.lock", "forky.log")
}

func TestCancel(t *testing.T) {
	fakeTools(t, "trap '' TERM INT HUP; mkdir root; setsid sleep 1000 & echo 'I: extracting archives'; sleep 1000")
	o := fakeOptions(t)
	ctx, cancel := context.WithCancel(context.Background())
	var cancelled time.Time
	o.Progress = func(p Progress) {
		if strings.HasPrefix(p.Stage, "unpacking") && cancelled.IsZero() {
			cancelled = time.Now()
			cancel()
		}
	}
	_, err := Ensure(ctx, o)
	if !errors.Is(err, context.Canceled) || err.Error() != "build forky: context canceled" {
		t.Errorf("error %v, want %q", err, "build forky: context canceled")
	}
	if took := time.Since(cancelled); took > time.Minute { // the tools would run for 1000 s
		t.Errorf("Ensure ended %v after the cancel, want a minute at most", took)
	}
	checkClean(t, o.CacheDir, "forky.lock", "forky.log")
}

func TestOneBuildsTheOthersWait(t *testing.T) {
	fakeTools(t, "echo x >>../count; mkdir root; sleep 0.5")
	o := fakeOptions(t)
	var mu sync.Mutex
	waited := 0
	var wg sync.WaitGroup
	for range 4 {
		o := o
		said := false
		o.Progress = func(p Progress) {
			if p.Stage == "waiting for another build of forky" && !said {
				said = true
				mu.Lock()
				waited++
				mu.Unlock()
			}
		}
		wg.Go(func() {
			if _, err := Ensure(context.Background(), o); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if count, _ := os.ReadFile(filepath.Join(o.CacheDir, "count")); string(count) != "x\n" || waited != 3 {
		t.Errorf("builds %q and %d waiting callers, want %q and 3", count, waited, "x\n")
	}
}

// TestParentKilled: after a kill at any moment, no process runs on, and the next call works.
func TestParentKilled(t *testing.T) {
	fakeTools(t, `mkdir -p root/a root/b
		mount -t tmpfs tmpfs root/a
		for i in 1 2 3; do setsid sh -c 'while :; do echo x >root/b/$$.$(cat /proc/uptime | tr -d " "); done' & done
		sleep 0.2; umount root/a; kill %1 %2 %3 || true`)
	killAndEnsure(t, 20, 300*time.Millisecond, filepath.Join(t.TempDir(), "cache"), someMirror)
}

// killAndEnsure starts a program that calls Ensure and kills it within a time,
// n times over, looks for processes and mounts that are left, and lets a last call come to its end.
func killAndEnsure(t *testing.T, n int, within time.Duration, cache string, mirror ...string) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	start := func() *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", append([]string{ensureArg, cache}, mirror...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	for i := range n {
		cmd := start()
		after := time.Duration(r.Int64N(int64(within)))
		time.Sleep(after)
		if i%3 == 1 { // the builder as well: then no process cleans up
			killBuilder(cache)
		}
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
		t.Logf("killed after %v", after)
		if i%3 != 2 { // or the next call comes at once
			checkClean(t, cache)
		}
	}
	if err := start().Wait(); err != nil {
		t.Fatalf("the build after those that were killed: %v", err)
	}
	checkClean(t, cache, newRecipe(Options{Suite: suites[0]}).treeName(), "forky.lock", "forky.log")
}

func TestDiskFullInTheMiddle(t *testing.T) {
	fakeTools(t, "mkdir root; head -c 20000000 /dev/zero >root/big")
	diskFull(t, "4m", fakeOptions(t))
}

// diskFull calls Ensure with a cache folder of the given size, too small.
func diskFull(t *testing.T, size string, o Options) {
	t.Helper()
	if err := os.MkdirAll(o.CacheDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", o.CacheDir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(o.CacheDir, 0) // fails if anything were left
	o.skipSpaceCheck = true
	_, err := Ensure(context.Background(), o)
	var se *SpaceError
	if !errors.As(err, &se) || !se.Full || err.Error() != "cache "+o.CacheDir+": disk full, about 750 MiB needed to build forky" {
		t.Errorf("a cache folder of %s: error %v, want that the disk is full", size, err)
	}
	checkClean(t, o.CacheDir, "forky.lock", "forky.log")
	if err := unix.Unmount(o.CacheDir, 0); err != nil {
		t.Errorf("unmount the cache folder: %v; want that no process uses it", err)
	}
}

// A disk that is too small is found before the build.
func TestDiskTooSmall(t *testing.T) {
	fakeTools(t, "mkdir root")
	o := fakeOptions(t)
	o.skipSpaceCheck = false
	o.CacheDir = t.TempDir()
	if err := unix.Mount("tmpfs", o.CacheDir, "tmpfs", 0, "size=412m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(o.CacheDir, 0)
	want := "cache " + o.CacheDir + ": 412 MiB free, about 750 MiB needed to build forky"
	if _, err := Ensure(context.Background(), o); errText(err) != want {
		t.Errorf("error %v, want %q", err, want)
	}
	checkClean(t, o.CacheDir, "forky.lock")
}

func TestCacheFolderThatCannotBe(t *testing.T) {
	fakeTools(t, "exit 1")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	readOnly := t.TempDir()
	if err := unix.Mount("tmpfs", readOnly, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(readOnly, 0)
	for _, c := range []struct{ dir, want string }{
		{file, "cache " + file + ": not a directory"},
		{file + "/below", "cache " + file + "/below: mkdir " + file + ": not a directory"},
		{readOnly, "cache " + readOnly + ": open " + readOnly + "/forky.lock: read-only file system"},
		{readOnly + "/below", "cache " + readOnly + "/below: read-only file system"},
	} {
		_, err := Ensure(context.Background(), Options{Suite: suites[0], CacheDir: c.dir, Mirror: someMirror})
		if errText(err) != c.want {
			t.Errorf("error %v\nwant %s", err, c.want)
		}
	}
}

func TestMissingTools(t *testing.T) {
	fakeTools(t, "exit 1")
	dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	t.Setenv("PATH", dir)
	for _, c := range []struct{ remove, want string }{
		{"mmdebstrap", "mmdebstrap is not installed: apt-get install mmdebstrap"},
		{"apt-config", "apt-config is not installed: apt-get install apt"},
	} {
		os.Remove(filepath.Join(dir, c.remove))
		o := fakeOptions(t)
		_, err := Ensure(context.Background(), o)
		if missing := (*MissingToolError)(nil); !errors.As(err, &missing) || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
		if isDir(o.CacheDir) {
			t.Error("the cache folder was made")
		}
	}
}

func TestMainRefusesToRunElsewhere(t *testing.T) {
	if code := Main([]string{"/bin/true"}); code != 2 {
		t.Errorf("exit status %d, want 2", code)
	}
}

func TestBuildEnv(t *testing.T) {
	got := buildEnv([]string{"HOME=/home/x", "http_proxy=http://p", "HTTPS_PROXY=http://q", "no_proxy=a", "PERL5LIB=/x", "APT_CONFIG=/x", "TMPDIR=/x"})
	want := []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
		"DEBCONF_NONINTERACTIVE_SEEN=true", "http_proxy=http://p", "HTTPS_PROXY=http://q", "no_proxy=a",
	}
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

// Without a network CRIU cannot be compiled, and the error is that of the tree that needs it. A
// package that is there is installed by the tree's build.
func TestBuildWithCRIU(t *testing.T) {
	fakeTools(t, `case "$*" in
		*essential-hook*) mkdir root; readlink criu.deb; echo "$*" | grep -c -e '--customize-hook=.*/criu ' ;;
		*) echo 'E: Failed to fetch the source of criu'; exit 100 ;;
		esac`)
	o := fakeOptions(t)
	o.Suite = mustSuite(t, "trixie")
	want := "build criu-trixie: Failed to fetch the source of criu (log: " + o.CacheDir + "/criu-trixie.log)"
	if _, err := Ensure(context.Background(), o); errText(err) != want {
		t.Errorf("error %v, want %q", err, want)
	}
	checkClean(t, o.CacheDir, "trixie.lock", "criu-trixie.lock", "criu-trixie.log")

	made := filepath.Join(o.CacheDir, newCRIURecipe(o.Suite).treeName(), "criu_4.2.1-0+trixie_amd64.deb")
	if err := os.MkdirAll(filepath.Dir(made), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(made, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if log, _ := os.ReadFile(filepath.Join(o.CacheDir, "trixie.log")); string(log) != made+"\n1\n" {
		t.Errorf("the builder wrote %q into its log, want %q", log, made+"\n1\n")
	}
}
