// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/contrib/criu"
)

func mustSuite(t *testing.T, name string) Suite {
	t.Helper()
	s, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRecipeHash(t *testing.T) {
	base := newRecipe(Options{Suite: mustSuite(t, "forky")})
	if got := newRecipe(Options{Suite: mustSuite(t, "forky")}).recipeHash(); got != base.recipeHash() {
		t.Fatalf("the same recipe has two hashes: %s, %s", base.recipeHash(), got)
	}
	for name, change := range map[string]func(*recipe){
		"suite":          func(r *recipe) { r.suite = mustSuite(t, "trixie") },
		"torch":          func(r *recipe) { r.torch = true },
		"corpus":         func(r *recipe) { r.corpus = true },
		"package":        func(r *recipe) { r.packages = append(slices.Clone(r.packages), "less") },
		"package order":  func(r *recipe) { r.packages = slices.Clone(r.packages); slices.Reverse(r.packages) },
		"dpkg option":    func(r *recipe) { r.dpkg = r.dpkg[1:] },
		"essential hook": func(r *recipe) { r.essential += "\n" },
		"customize hook": func(r *recipe) { r.customize += "\n" },
		"CRIU":           func(r *recipe) { r.criu = "#" },
		"moved text": func(r *recipe) {
			r.essential, r.customize = r.essential+r.customize[:1], r.customize[1:]
		},
	} {
		r := base
		change(&r)
		if r.recipeHash() == base.recipeHash() {
			t.Errorf("%s: the hash does not change", name)
		}
	}
}

func TestRecipePackages(t *testing.T) {
	for _, c := range []struct {
		suite         string
		torch, corpus bool
		pkg           string
		want          bool
	}{
		{"forky", false, false, "criu", true},
		{"trixie", false, false, "criu", false}, // Debian's own CRIU does not work on today's kernels
		{"bookworm", false, false, "criu", false},
		{"trixie", false, false, "libnet1", true},
		{"forky", false, false, "python3-torch", false},
		{"forky", true, false, "python3-torch", true},
		{"forky", true, false, "redis-server", false},
		{"forky", false, true, "redis-server", true},
		{"forky", false, true, "python3-torch", true},
		{"bookworm", true, false, "python3-numpy", true},
	} {
		r := newRecipe(Options{Suite: mustSuite(t, c.suite), Torch: c.torch, Corpus: c.corpus})
		if got := slices.Contains(r.packages, c.pkg); got != c.want {
			t.Errorf("%s has %s: %t, want %t", r.variantName(), c.pkg, got, c.want)
		}
	}
}

func TestIsTreeOf(t *testing.T) {
	for _, c := range []struct {
		variant, name string
		want          bool
	}{
		{"forky", "forky-0123456789ab", true},
		{"forky-torch", "forky-torch-0123456789ab", true},
		{"forky-corpus", "forky-corpus-0123456789ab", true},
		{"forky", "forky-corpus-0123456789ab", false},
		{"forky", "forky-torch-0123456789ab", false},
		{"forky", "forky-torch", false},
		{"forky", "forky-0123456789a", false},
		{"forky", "forky-0123456789ag", false},
		{"forky", "forky.lock", false},
		{"forky", "building-forky.1", false},
		{"trixie", "forky-0123456789ab", false},
	} {
		if got := isTreeOf(c.variant, c.name); got != c.want {
			t.Errorf("isTreeOf(%q, %q) = %t", c.variant, c.name, got)
		}
	}
	r := newRecipe(Options{Suite: mustSuite(t, "forky"), Torch: true})
	if !isTreeOf(r.variantName(), r.treeName()) {
		t.Errorf("%s is not a tree of %s", r.treeName(), r.variantName())
	}
}

// TestHooksAreScripts: each hook is a shell script that stops at the first error.
func TestHooksAreScripts(t *testing.T) {
	for name, text := range map[string]string{"essential": essentialHook, "corpus": corpusHook, "customize": customizeHook, "criu": criuHook, "contrib/criu/build": criu.Script} {
		if !strings.HasPrefix(text, "#!/bin/sh\n") || !strings.Contains(text, "\nset -eu\n") {
			t.Errorf("%s: want a shell script that stops at the first error", name)
		}
	}
}

// A package written twice would be harmless, and is a sign of a careless edit.
func TestCorpusPackagesOnce(t *testing.T) {
	r := newRecipe(Options{Suite: mustSuite(t, "forky"), Torch: true, Corpus: true})
	for i, p := range r.packages {
		if slices.Contains(r.packages[:i], p) {
			t.Errorf("%s is listed twice", p)
		}
	}
	if got := r.variantName(); got != "forky-corpus" {
		t.Errorf("variantName = %s, want forky-corpus", got)
	}
}
