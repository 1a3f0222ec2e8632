// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tiles

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// tileProgram loads the configuration of tiles if it has an argument, and clears a tile; it then waits for the end of
// its standard input.
const tileProgram = `
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned char configuration[64] = { 1, [16] = 64, [48] = 16 };

	(void)argv;
	if (syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18))
		return (1);
	if (argc > 1)
		__asm__ volatile("ldtilecfg %0\n\ttilezero %%tmm0\n\ttilerelease" : : "m"(configuration));
	puts("ready");
	fflush(stdout);
	return (getchar() != EOF);
}
`

// startTiles starts a program that has the permission to use tiles, and returns its PID.
func startTiles(t *testing.T, path string, args ...string) int {
	t.Helper()
	program := exec.Command(path, args...)
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = program.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the program printed %q, %v", line, err)
	}
	return program.Process.Pid
}

// TestUsers: FindUsers finds a process that has used tiles, even after the process has released the tiles, and does not
// find a process that has the permission only.
func TestUsers(t *testing.T) {
	switch {
	case os.Geteuid() != 0:
		t.Skip("SKIP: needs root: it loads a BPF program")
	case !hasTiles():
		t.Skip("SKIP: the processor has no AMX")
	}
	if err := Prepare(); err != nil {
		t.Skip("SKIP: needs BPF and BTF: ", err)
	}
	path := filepath.Join(t.TempDir(), "tiles")
	if err := os.WriteFile(path+".c", []byte(tileProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-o", path, path+".c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	user, permitted := startTiles(t, path, "use"), startTiles(t, path)
	found := FindUsers()
	if got, want := found.Describe(user), "uses AMX tiles, which CRIU does not save"; got != want {
		t.Errorf("a process that has used tiles: %q, want %q", got, want)
	}
	for name, pid := range map[string]int{"with the permission": permitted, "this one": os.Getpid(), "none": 1 << 30} {
		if got := found.Describe(pid); got != "" {
			t.Errorf("process %s: %q", name, got)
		}
	}
}
