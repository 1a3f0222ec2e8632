// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package llama runs unmodified llama.cpp with its CUDA backend and the vendor's cuBLAS on the software GPU, through
// node-llama-cpp, as contrib/cuda-software fetches them from npm and Debian. The model is made up by a program.
package llama

import (
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

func TestMain(m *testing.M) { soft.Main(m) }

// limit allows for machines with much other load: a run takes some ten seconds on two idle cores.
const limit = 8 * time.Minute

// modelHash is that of the file that model.mjs writes: the same on each machine.
const modelHash = "c60dbf44b725ebf7fa88b30dacf93e4dc9f1ee6b04b48c73bfc3dc2a4cd04d9a"

// kit is a folder with the programs, their node_modules, and the model.
type kit struct{ dir, node string }

// newKit makes the folder. The test is skipped where the packages cannot be had.
func newKit(t *testing.T) kit {
	t.Helper()
	var said strings.Builder
	fetch := exec.Command("../../contrib/cuda-software/fetch", "llama")
	fetch.Stderr = &said
	out, err := fetch.Output()
	if err != nil {
		t.Skip("SKIP: ", err, ": ", said.String())
	}
	tree := strings.TrimSpace(string(out))
	k := kit{dir: t.TempDir(), node: filepath.Join(tree, "node")}
	if err := os.CopyFS(k.dir, os.DirFS("programs")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(tree, "node_modules"), filepath.Join(k.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(k.node, k.pathOf("model.mjs"), k.pathOf("tiny.gguf")).CombinedOutput(); err != nil {
		t.Fatalf("model.mjs: %v\n%s", err, out)
	}
	return k
}

func (k kit) pathOf(name string) string { return filepath.Join(k.dir, name) }

// runProgram runs a program with the model on a software GPU, and returns the output.
func (k kit) runProgram(t *testing.T, program string, args ...string) string {
	t.Helper()
	args = append([]string{k.pathOf(program), k.pathOf("tiny.gguf")}, args...)
	r := soft.Need(t).Run(t, soft.Program{Path: k.node, Args: args, Devices: 1, Limit: limit})
	if r.Exit != 0 {
		t.Fatalf("%s ended with %d\nstdout:\n%s\nstderr:\n%s", program, r.Exit, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// TestModel: the made-up model is the same file on each machine, so that answers can be compared.
func TestModel(t *testing.T) {
	text, err := os.ReadFile(newKit(t).pathOf("tiny.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != modelHash {
		t.Errorf("the model's hash is %s, want %s", got, modelHash)
	}
}

// TestAnswers: four prompts are answered at once, in sequences of a single context, and a second run has the same
// answers.
func TestAnswers(t *testing.T) {
	k, rounds := newKit(t), 2
	if testing.Short() {
		rounds = 1
	}
	first := k.runProgram(t, "answer.mjs", strconv.Itoa(rounds))
	lines := strings.Split(strings.TrimSpace(first), "\n")
	if want := 1 + 4*rounds; len(lines) != want || lines[0] != "4 layers on cuda: Singularity software GPU" {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), want, first)
	}
	for _, line := range lines[1:] {
		if _, answer, ok := strings.Cut(line, ": "); !ok || len(strings.Fields(answer)) != 12 {
			t.Errorf("an answer has 12 words: %q", line)
		}
	}
	if second := k.runProgram(t, "answer.mjs", strconv.Itoa(rounds)); second != first {
		t.Errorf("the first run:\n%s\nthe second:\n%s", first, second)
	}
}

// TestLogits: the model's logits of each next token are those that llama.cpp computes on the CPU. GPU and CPU round
// activations to eight bits in different ways, which makes a difference of some percent.
func TestLogits(t *testing.T) {
	k := newKit(t)
	out, err := exec.Command(k.node, k.pathOf("logits.mjs"), k.pathOf("tiny.gguf"), "cpu").Output()
	if err != nil {
		t.Fatal(err)
	}
	want, got := readLogits(t, string(out)), readLogits(t, k.runProgram(t, "logits.mjs", "cuda"))
	if len(want) < 30 || len(got) != len(want) {
		t.Fatalf("%d tokens on the CPU, %d on the device; want 30 or more", len(want), len(got))
	}
	var wrong, size float64
	for i := range want {
		if len(want[i]) < 200 || len(got[i]) != len(want[i]) {
			t.Fatalf("token %d: %d logits on the CPU, %d on the device; want 200 or more", i, len(want[i]), len(got[i]))
		}
		for j := range want[i] {
			wrong += (got[i][j] - want[i][j]) * (got[i][j] - want[i][j])
			size += want[i][j] * want[i][j]
		}
		if best := slices.Index(got[i], slices.Max(got[i])); want[i][best] < slices.Max(want[i])-1 {
			t.Errorf("token %d: another word is the next one", i)
		}
	}
	if r := math.Sqrt(wrong / size); r > 0.03 || math.IsNaN(r) {
		t.Errorf("logits are %.1f %% apart, want 3 %% at most", 100*r)
	}
}

// readLogits takes a program's output apart: a line for each token, with a number for each word.
func readLogits(t *testing.T, text string) [][]float64 {
	t.Helper()
	var all [][]float64
	for line := range strings.Lines(text) {
		var logits []float64
		for word := range strings.FieldsSeq(line) {
			logit, err := strconv.ParseFloat(word, 64)
			if err != nil {
				t.Fatal(err)
			}
			logits = append(logits, logit)
		}
		all = append(all, logits)
	}
	return all
}
