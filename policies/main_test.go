// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
)

// TestEachFolder: each folder but the contract's is a policy of that name, and is in the program. The Makefile makes
// a link for each folder.
func TestEachFolder(t *testing.T) {
	var names []string
	for _, p := range listPolicies() {
		names = append(names, p.Describe().Name)
	}
	if folders := listFolders(t); !slices.Equal(names, folders) {
		t.Errorf("the program has the policies %q, and the folders are %q", names, folders)
	}
}

// listFolders returns the names of policies, by their folders, in the order of names.
func listFolders(t *testing.T) []string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, f := range files {
		if f.IsDir() && f.Name() != "sdk" {
			folders = append(folders, f.Name())
		}
	}
	return folders
}

// TestStartedByName: links of both kinds and a copy are the policy of their name, with the program's version. A script
// of any name starts the policy of the link that it executes.
func TestStartedByName(t *testing.T) {
	folder := sdktest.BuildFolder(t, "tiers")
	program, err := filepath.EvalSymlinks(filepath.Join(folder, "sing-policy-tiers"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec " + folder + "/sing-policy-tiers\n"
	if err := errors.Join(
		os.Link(program, filepath.Join(folder, "sing-policy-drain")),
		os.WriteFile(filepath.Join(folder, "sing-policy-power"), content, 0o700),          //nolint:gosec // a program
		os.WriteFile(filepath.Join(folder, "sing-policy-evening"), []byte(script), 0o700), //nolint:gosec // a program
	); err != nil {
		t.Fatal(err)
	}
	for started, name := range map[string]string{"tiers": "tiers", "drain": "drain", "power": "power", "evening": "tiers"} {
		d, err := sdktest.Start(t, filepath.Join(folder, "sing-policy-"+started)).Describe(t.Context())
		if err != nil || d.Name != name || d.Version != version {
			t.Errorf("sing-policy-%s is %+v, %v; want %s", started, d, err, name)
		}
	}
}

// TestOtherNames: started by another name, the program names the policies that there are, in a line.
func TestOtherNames(t *testing.T) {
	folder := sdktest.BuildFolder(t, "evening", "tiers")
	program, err := filepath.EvalSymlinks(filepath.Join(folder, "sing-policy-tiers"))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(listFolders(t), ", sing-policy-") + "\n"
	last := strings.LastIndex(all, ", ")
	all = "sing-policy-" + all[:last] + " and " + all[last+2:]
	for _, started := range []string{program, filepath.Join(folder, "sing-policy-evening")} {
		var said bytes.Buffer
		cmd := exec.Command(started) //nolint:gosec // built above
		cmd.Stderr = &said
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%s ends with %v", started, err)
		}
		want := filepath.Base(started) + ": this program has no policy of that name; it has " + all
		if said.String() != want {
			t.Errorf("%s says %q, want %q", started, said.String(), want)
		}
	}
	for _, started := range []string{program, filepath.Join(folder, "sing-policy-evening"), filepath.Join(folder, "sing-policy-tiers")} {
		out, err := exec.Command(started, "--help").Output() //nolint:gosec // built above
		if err != nil || string(out) != helpText() {
			t.Errorf("%s --help: %v\n%s", started, err, out)
		}
	}
}

// TestHelp: each policy has a line of help.
func TestHelp(t *testing.T) {
	for _, p := range listPolicies() {
		d := p.Describe()
		if want := sdk.ProgramPrefix + d.Name; !strings.Contains(helpText(), "\n  "+want+" ") || d.Summary == "" || !strings.Contains(helpText(), " "+d.Summary+"\n") {
			t.Errorf("no line of %s:\n%s", want, helpText())
		}
	}
}
