// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
)

func TestFeatureIsProbedOnce(t *testing.T) {
	var asked int
	answers := []error{errors.New("interrupted"), &UnsupportedError{"x", "Linux 9", "Linux 6"}, nil}
	f := Feature{Name: "x", Probe: func() error { asked++; return answers[asked-1] }}
	if err := f.Check(); err == nil || err.Error() != "probe x: interrupted" {
		t.Errorf("Check after an interrupted probe: %v", err)
	}
	for range 3 {
		if err := f.Check(); !errors.Is(err, ErrUnsupported) || err.Error() != "x needs Linux 9, found Linux 6" {
			t.Errorf("Check of a missing feature: %v; want an UnsupportedError", err)
		}
	}
	if asked != 2 {
		t.Errorf("probed %d times, want 2", asked)
	}
}

// TestProbesOfThisKernel: each probe has a conclusive answer on any kernel, and on Linux 6 the
// features of Linux 5.8 and 5.17 are found.
func TestProbesOfThisKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: else the kernel answers \"not permitted\" to all")
	}
	var major, minor int
	if _, err := fmt.Sscanf(Release(), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*Feature{&Namespaces, &TimeNamespaces, &Pidfd, &Openat2, &Fanotify, &Nftables, &Veth, &VXLAN, &Freezer, &GroupKill, &SysVNumbers} {
		err := f.Check()
		switch {
		case err == nil:
		case !errors.Is(err, ErrUnsupported):
			t.Errorf("%s: the probe cannot tell: %v", f.Name, err)
		case major >= 6 && (f == &Namespaces || f == &Pidfd || f == &Openat2 || f == &SysVNumbers):
			t.Errorf("%s is in every kernel since 5.17, and this is %s: %v", f.Name, Release(), err)
		default:
			t.Logf("%s: %v", f.Name, err)
		}
	}
}

// TestFreezerLeavesNothing: a probe removes its cgroup. Probes of other processes on this kernel come and go meanwhile.
func TestFreezerLeavesNothing(t *testing.T) {
	before := probeGroups(t)
	for range 3 {
		if err := Freezer.Probe(); err != nil {
			t.Skipf("no freezer here: %v", err)
		}
	}
	var left []string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		left = slices.DeleteFunc(probeGroups(t), func(name string) bool { return slices.Contains(before, name) })
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("cgroups after three probes: %q, want none", left)
}

// probeGroups returns the names of the cgroups of probes that exist.
func probeGroups(t *testing.T) []string {
	t.Helper()
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Skipf("no cgroup v2 here: %v", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		t.Skipf("no cgroup v2 here: %v", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		t.Skipf("cgroup v2 cannot be mounted here: %v", err)
	}
	defer unix.Close(mount)
	fd, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	root := os.NewFile(uintptr(fd), "cgroup2")
	defer root.Close()
	names, err := root.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "singularity-probe-") })
}

func TestFanotify(t *testing.T) {
	for _, tt := range []struct {
		name          string
		probe         error
		groups, cores int
		level         Level
		found, do     string
	}{
		{"enough", nil, 128, 16, OK, "for 128 capsules", ""},
		{"a kernel that does not say", nil, 0, 16, OK, "there", ""},
		{"fewer than jobs", nil, 128, 96, Warn, "for 128 capsules (fs.fanotify.max_user_groups), on 96 cores", "sysctl -w fs.fanotify.max_user_groups=1024, "},
		{"very many cores", nil, 128, 1024, Warn, "for 128 capsules (fs.fanotify.max_user_groups), on 1024 cores", "sysctl -w fs.fanotify.max_user_groups=2048, "},
		{"none left", fmt.Errorf("probe fanotify: %w", unix.EMFILE), 128, 16, Warn, "all 128 of fs.fanotify.max_user_groups are in use", "sysctl -w fs.fanotify.max_user_groups=1024, "},
		{"none at all", unsupportedByKernel("fanotify", "a kernel with CONFIG_FANOTIFY"), 0, 16, Warn, "fanotify needs a kernel with CONFIG_FANOTIFY, found Linux " + Release(), "boot a kernel with CONFIG_FANOTIFY"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fanotifyFinding(tt.probe, tt.groups, tt.cores)
			if f.Level != tt.level || f.Found != tt.found || !strings.HasPrefix(f.Do, tt.do) || (f.Do == "") != (tt.level == OK) {
				t.Errorf("fanotify finding = %+v", f)
			}
		})
	}
}

// TestNeedsInDocs: the versions in the docs are those that doctor wants.
func TestNeedsInDocs(t *testing.T) {
	for _, page := range []string{"../../README.md", "../../docs/install.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, need := range []string{KernelNeeds + " or newer", fmt.Sprintf("CRIU %d.%d", CriuMajor, CriuMinor)} {
			if !strings.Contains(string(text), need) {
				t.Errorf("%s does not say %q", page, need)
			}
		}
	}
}

func TestCapabilities(t *testing.T) {
	if got := lackingCapabilities("Name:\tx\nCapEff:\t000001ffffffffff\n"); len(got) != 0 {
		t.Errorf("root lacks %q, want no capability", got)
	}
	got := lackingCapabilities(fmt.Sprintf("CapEff:\t%016x\n", uint64(0x1ffffffffff)&^(1<<unix.CAP_SYS_ADMIN|1<<unix.CAP_CHECKPOINT_RESTORE)))
	if strings.Join(got, " ") != "cap_sys_admin cap_checkpoint_restore" {
		t.Errorf("lackingCapabilities = %q, want cap_sys_admin and cap_checkpoint_restore", got)
	}
	if got := lackingCapabilities("nothing"); len(got) != len(capabilities) {
		t.Errorf("unreadable: lacks only %q", got)
	}
}

func TestCriuVersions(t *testing.T) {
	for _, tt := range []struct{ out, version, wrong string }{
		{"Version: 4.2\n", "4.2", ""},
		{"Version: 4.2.1 (gitid 0)\n", "4.2.1", ""},
		{"Version: 5.0\nGitID: v5.0\n", "5.0", ""},
		{"Version: 4.10\n", "4.10", ""},
		{"Version: 4.1.1\n", "4.1.1", "checkpoints needs criu 4.2, found criu 4.1.1"},
		{"Version: 3.17.1\n", "3.17.1", "checkpoints needs criu 4.2, found criu 3.17.1"},
		{"command not understood\n", "", `criu --version printed "command not understood\n"`},
	} {
		version, err := checkCriu(tt.out)
		if version != tt.version || (err == nil) != (tt.wrong == "") || err != nil && err.Error() != tt.wrong {
			t.Errorf("checkCriu(%q) = %q, %v", tt.out, version, err)
		}
	}
	if _, err := Criu(t.Context(), "/nowhere/criu"); !errors.Is(err, ErrUnsupported) || err.Error() != "checkpoints needs criu 4.2, found no /nowhere/criu" {
		t.Errorf("Criu without the program: %v", err)
	}
	if _, err := Criu(t.Context(), "/bin/false"); err == nil || errors.Is(err, ErrUnsupported) {
		t.Errorf("Criu with a program that fails: %v", err)
	}
}

const config2605 = `Configuration data as of 2026-07-01T12:00:00
AccountingStorageHost   = ctl
ClusterName             = mini
JobRequeue              = 1
KillWait                = 30 sec
PlugStackConfig         = (null)
ProctrackType           = proctrack/linuxproc
RequeueExit             = 123
SLURM_CONF              = /etc/slurm/slurm.conf
SLURM_VERSION           = 26.05.5
SlurmUser               = slurm(64030)
SlurmdSpoolDir          = /var/spool/slurmd-%n
Slurmctld(primary) at ctl is UP
`

func TestParseSlurm(t *testing.T) {
	s, err := parseSlurm(config2605, "n1")
	want := Slurm{Version: "26.05.5", Cluster: "mini", User: "slurm", UID: 64030, KillWait: 30 * time.Second, Proctrack: "proctrack/linuxproc",
		JobRequeue: true, RequeueExit: "123", SpoolDir: "/var/spool/slurmd-n1", Plugstack: "/etc/slurm/plugstack.conf"}
	if err != nil || *s != want {
		t.Errorf("parseSlurm = %+v, %v", s, err)
	}
	for _, tt := range []struct{ old, new, want string }{
		{"KillWait                = 30 sec", "", "scontrol show config: no KillWait"},
		{"30 sec", "soon", `scontrol show config: KillWait "soon"`},
		{"slurm(64030)", "slurm", `scontrol show config: SlurmUser "slurm"`},
		{"slurm(64030)", "slurm(99999999999)", `scontrol show config: SlurmUser "slurm(99999999999)"`},
	} {
		if _, err := parseSlurm(strings.Replace(config2605, tt.old, tt.new, 1), "n1"); err == nil || err.Error() != tt.want {
			t.Errorf("%q: %v, want %s", tt.new, err, tt.want)
		}
	}
}

// TestNoScontrol: without scontrol, the error names the missing scontrol, and does not say that
// slurmctld is away.
func TestNoScontrol(t *testing.T) {
	if _, err := ReadSlurm(t.Context(), "/bin/false", "n1"); err == nil || errors.Is(err, ErrNoScontrol) {
		t.Errorf("an scontrol that fails: %v", err)
	}
	for _, program := range []string{"/nowhere/scontrol", "no-scontrol-in-path"} {
		_, err := ReadSlurm(t.Context(), program, "n1")
		if !errors.Is(err, ErrNoScontrol) || !strings.Contains(err.Error(), program) {
			t.Errorf("ReadSlurm with %s: %v; want ErrNoScontrol", program, err)
		}
		n := &node{slurm: func() (*Slurm, error) { return nil, err }}
		if f := checkRequeue(t.Context(), n); f.Found != "cannot tell without scontrol" || f.Do == "" {
			t.Errorf("requeue finding without scontrol (%s) = %+v", program, f)
		}
	}
}

func TestPlugin(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stack := filepath.Join(dir, "plugstack.conf")
	check := func(level Level, found string) {
		t.Helper()
		f := checkPlugin(&Slurm{Version: "26.05", Plugstack: stack}, "")
		if f.Level != level || f.Found != found || (f.Do == "") != (level == OK) {
			t.Errorf("%+v, want %s: %s", f, level, found)
		}
	}
	check(Fail, "no "+stack)
	write("plugstack.conf", "# optional spank_singularity.so\noptional other.so\n")
	check(Fail, "no line with it")
	write("plugstack.conf", "optional  spank_singularity.so  without_proxyd=run # ours\n")
	check(OK, "optional spank_singularity.so without_proxyd=run")
	write("plugstack.conf", "required /nowhere/spank_singularity.so\n")
	check(Fail, "open /nowhere/spank_singularity.so: no such file or directory")
	so := filepath.Join(dir, "spank_singularity.so")
	for source, want := range map[string]string{
		"": so + " is no plugin of Slurm: it has no plugin_version",
		"const unsigned plugin_version = 0x180b05;": so + " is built for Slurm 24.11: slurmd does not load it, and jobs run unprotected",
	} {
		compilePlugin(t, so, source)
		write("plugstack.conf", "optional "+so+"\n")
		check(Fail, want)
	}
	compilePlugin(t, so, "const unsigned plugin_version = 0x1a0503;")
	shim := write("libsingshim.so", "")
	for line, want := range map[string]string{
		"optinal " + so:                                  "optinal " + so,
		"optional " + so + " shimm=" + shim:              "optional " + so + " shimm=" + shim + ": there is no shimm=",
		"optional " + so + " shim=/nowhere/shim.so":      "optional " + so + " shim=/nowhere/shim.so: no file /nowhere/shim.so",
		"optional " + so + " without_proxyd=ignore":      "optional " + so + " without_proxyd=ignore: without_proxyd=ignore",
		"optional " + so + " retry=abc":                  "optional " + so + " retry=abc: retry=abc",
		"optional " + so + " retry=3601":                 "optional " + so + " retry=3601: retry=3601",
		"optional " + so + " retry":                      "optional " + so + " retry: retry has no value",
		"optional " + so + " socket=spank.sock":          "optional " + so + " socket=spank.sock: socket=spank.sock",
		"optional " + so + " shim=" + shim + " retry=30": "",
	} {
		write("plugstack.conf", line+"\n")
		level := Fail
		if want == "" {
			level, want = OK, line
		}
		check(level, want)
	}
	if err := os.Mkdir(filepath.Join(dir, "plugstack.conf.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("plugstack.conf.d/b.conf", "required "+so+"\n")
	write("plugstack.conf.d/a.conf", "optional other.so\n")
	write("plugstack.conf", "include plugstack.conf.d/*.conf\n")
	check(Warn, "required "+so)
	write("plugstack.conf", "include plugstack.conf\n") // an endless include
	check(Fail, "no line with it")
}

// TestMisspeltPlugin: doctor names the line of plugstack.conf that is meant to load the plugin and does not, and what is
// to be written there.
func TestMisspeltPlugin(t *testing.T) {
	prefix := t.TempDir()
	libraries := filepath.Join(prefix, "lib", "singularity-slurm")
	if err := os.MkdirAll(libraries, 0o755); err != nil {
		t.Fatal(err)
	}
	libexec := filepath.Join(prefix, "libexec", "singularity-slurm")
	if got := installedLibraries(libexec); got != "" {
		t.Errorf("the plugin is not there, and installedLibraries = %q", got)
	}
	so, shim := filepath.Join(libraries, "spank_singularity.so"), filepath.Join(libraries, "libsingshim.so")
	compilePlugin(t, so, "const unsigned plugin_version = 0x1a0503;")
	if err := os.WriteFile(shim, nil, 0o644); err != nil { //nolint:gosec // a library
		t.Fatal(err)
	}
	if got := installedLibraries(libexec); got != libraries {
		t.Errorf("installedLibraries = %q, want %q", got, libraries)
	}
	stack := filepath.Join(prefix, "plugstack.conf")
	meant := func(path string) string {
		return "no line with it; line 2 of " + stack + " seems to be meant: optional " + path
	}
	write := func(path string) string {
		return "write " + so + " in the place of " + path + ", in line 2 of " + stack
	}
	for name, tt := range map[string]struct{ line, found, do string }{
		"right":                   {"optional " + so + " shim=" + shim, "optional " + so + " shim=" + shim, ""},
		"no line":                 {"", "no line with it", "add to " + stack + " on every node: optional " + so + " shim=" + shim},
		"another plugin":          {"required /usr/lib/slurm/spank_pyxis.so", "no line with it", "add to " + stack + " on every node: optional " + so + " shim=" + shim},
		"a letter is missing":     {"optional /opt/spank_singularty.so", meant("/opt/spank_singularty.so"), write("/opt/spank_singularty.so")},
		"another name":            {"optional " + libraries + "/singularity.so", meant(libraries + "/singularity.so"), write(libraries + "/singularity.so")},
		"our arguments":           {"optional /opt/plugin.so without_proxyd=run", meant("/opt/plugin.so without_proxyd=run"), write("/opt/plugin.so")},
		"another folder":          {"optional /opt/spank_singularity.so", "open /opt/spank_singularity.so: no such file or directory", write("/opt/spank_singularity.so")},
		"a name without a folder": {"optional spank_singularity.so", "optional spank_singularity.so: no such file in Slurm's PluginDir, /usr/lib/slurm", write("spank_singularity.so")},
		"a misspelt shim":         {"optional " + so + " shim=/opt/libsingshin.so", "optional " + so + " shim=/opt/libsingshin.so: no file /opt/libsingshin.so", "write shim=" + shim},
	} {
		if err := os.WriteFile(stack, []byte("# plugins\n"+tt.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f := checkPlugin(&Slurm{Version: "26.05", Plugstack: stack, PluginDir: "/usr/lib/slurm"}, libraries)
		if f.Found != tt.found || f.Do != tt.do || (f.Level == OK) != (tt.do == "") {
			t.Errorf("%s: %+v; want found %q, do %q", name, f, tt.found, tt.do)
		}
	}
}

// compilePlugin makes a shared library like a plugin of Slurm.
func compilePlugin(t *testing.T, path, source string) {
	t.Helper()
	cc := exec.Command("cc", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
	cc.Stdin = strings.NewReader(source)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("compile a plugin: %v\n%s", err, out)
	}
}

// TestMeasure: the rate of writing is measured only if a job was not captured yet, and the caller wants that.
func TestMeasure(t *testing.T) {
	for name, tc := range map[string]struct {
		known LearntFacts
		want  bool
	}{
		"wanted":                {LearntFacts{Measure: true}, true},
		"not wanted":            {LearntFacts{}, false},
		"a job has been caught": {LearntFacts{Measure: true, Capture: time.Second}, false},
	} {
		n := &node{cfg: &config.Config{Staging: config.Staging{Folder: t.TempDir()}}, known: tc.known, patience: time.Minute,
			slurm: func() (*Slurm, error) { return &Slurm{KillWait: 30 * time.Second}, nil }}
		f := checkKillWait(t.Context(), n)
		if got := strings.Contains(f.Found, "can be captured"); got != tc.want {
			t.Errorf("%s: found %q; want a rate: %v", name, f.Found, tc.want)
		}
	}
}

func TestKillWait(t *testing.T) {
	const margin = 5 * time.Second
	for _, tt := range []struct {
		name          string
		wait, capture time.Duration
		rate          float64
		level         Level
		found, do     string
	}{
		{"plenty", 30 * time.Second, 3 * time.Second, 0, OK, "30s; capturing a job took 3s at most", ""},
		{"tight", 30 * time.Second, 14 * time.Second, 0, Warn, "30s; capturing a job took 14s", "set KillWait=33 in slurm.conf and scontrol reconfigure"},
		{"too short", 30 * time.Second, 26 * time.Second, 0, Fail, "30s; capturing a job took 26s", "set KillWait=57 in slurm.conf and scontrol reconfigure"},
		{"none left", 5 * time.Second, 0, 1 << 30, Fail, "5s, and a margin of 5s: no time is left", "set KillWait=60 in slurm.conf and scontrol reconfigure"},
		{"never measured", 30 * time.Second, 0, 1 << 30, OK, "30s; no job was captured yet; about 12.5 GiB of memory can be captured into the shared folder in that time", ""},
		{"nothing known", 30 * time.Second, 0, 0, OK, "30s; no job was captured yet", ""},
	} {
		f := judgeKillWait(tt.wait, margin, tt.capture, tt.rate, "the shared folder")
		if f.Level != tt.level || f.Found != tt.found || f.Do != tt.do {
			t.Errorf("%s: KillWait finding = %+v", tt.name, f)
		}
	}
}

func TestTryFolder(t *testing.T) {
	dir := t.TempDir()
	ahead, err := tryFolder(dir)
	if err != nil || ahead.Abs() > 5*time.Second {
		t.Errorf("tryFolder = clock ahead by %s, %v", ahead, err)
	}
	if rate, err := writeRate(dir, 1<<20); err != nil || rate <= 0 {
		t.Errorf("writeRate = %f, %v", rate, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("tryFolder and writeRate left files: %v, %v", left, err)
	}
	if _, err := tryFolder("/proc"); err == nil {
		t.Error("tryFolder wrote into /proc")
	}
}

// TestProbe looks at this machine, which has no Slurm and perhaps no CRIU: every finding has Found
// and Needs, and Do unless its level is OK.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	cfg := &config.Config{Shared: filepath.Join(dir, "shared"), KeyFile: filepath.Join(dir, "key"), NodeName: "n1",
		Scontrol: "/nowhere/scontrol", MungeSocket: "/nowhere/munge", KillWaitMargin: 5 * time.Second}
	findings := Probe(t.Context(), cfg, LearntFacts{Libexec: "/nowhere"})
	byName := make(map[string]Finding)
	for _, f := range findings {
		if f.Name == "" || f.Found == "" || f.Needs == "" || f.Level < OK || f.Level > Fail || (f.Do == "") != (f.Level == OK) {
			t.Errorf("incomplete finding: %+v", f)
		}
		if _, twice := byName[f.Name]; twice {
			t.Errorf("%s is there twice", f.Name)
		}
		byName[f.Name] = f
	}
	if len(findings) != len(checks) {
		t.Errorf("%d findings of %d checks", len(findings), len(checks))
	}
	for _, name := range []string{"criu", "munge", "slurm: slurmctld", "slurm: plugin", "installed", "key", "shared folder"} {
		if byName[name].Level != Fail {
			t.Errorf("%s cannot be well here: %+v", name, byName[name])
		}
	}
	for _, name := range []string{"kernel", "kernel: freezer"} {
		if !strings.Contains(byName[name].Needs, KernelNeeds) {
			t.Errorf("%s asks for another kernel than the docs, %s: %+v", name, KernelNeeds, byName[name])
		}
	}
	if os.Geteuid() == 0 {
		for path, mode := range map[string]os.FileMode{cfg.KeyFile: 0o640, cfg.Shared: 0} {
			if mode == 0 {
				if err := errors.Join(os.Mkdir(path, 0o755), os.Chmod(path, 0o777)); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(path, []byte("x"), mode); err != nil {
				t.Fatal(err)
			}
		}
		n := &node{cfg: cfg, patience: time.Minute}
		if f := checkKey(t.Context(), n); f.Found != "owned by user 0, mode 0640" {
			t.Errorf("key that a group reads: %+v", f)
		}
		if f := checkShared(t.Context(), n); f.Found != "owned by user 0, mode 0777" {
			t.Errorf("shared folder that all write: %+v", f)
		}
		if err := errors.Join(os.Chmod(cfg.KeyFile, 0o600), os.Chmod(cfg.Shared, 0o755)); err != nil {
			t.Fatal(err)
		}
		if f := checkKey(t.Context(), n); f.Level != OK {
			t.Errorf("key of mode 0600: %+v; want OK", f)
		}
		if f := checkShared(t.Context(), n); f.Level == Fail {
			t.Errorf("shared folder of mode 0755: %+v; want no failure", f)
		}
		if f := checkClock(t.Context(), n); f.Level != OK {
			t.Errorf("clock: %+v; want OK", f)
		}
		n.cfg.Staging.Folder = filepath.Join(dir, "stage")
		if f := checkStaging(t.Context(), n); f.Level != Fail || !strings.HasPrefix(f.Do, "mount its disk: ") || !strings.Contains(f.Do, "mkdir -m 700 "+n.cfg.Staging.Folder) {
			t.Errorf("a staging folder that is not there: %+v", f)
		}
		if err := errors.Join(os.Mkdir(n.cfg.Staging.Folder, 0o755), os.Chmod(n.cfg.Staging.Folder, 0o755)); err != nil {
			t.Fatal(err)
		}
		if f := checkStaging(t.Context(), n); f.Level != Fail || f.Found != "owned by user 0, mode 0755" {
			t.Errorf("a staging folder that all read: %+v", f)
		}
		if err := os.Chmod(n.cfg.Staging.Folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if f := checkStaging(t.Context(), n); f.Level == Fail {
			t.Errorf("staging folder of mode 0700: %+v; want no failure", f)
		}
	}
}
