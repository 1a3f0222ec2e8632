// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Command readability counts properties that make this tree easy or hard to read, beside the same counts of code
// bases that engineers hold up as models.
//
//	go run ./contrib/readability [--kind KIND] [--by-package] [--json] [FOLDER]
//
// Below the table of the shipped Go code, test files of Go, and C, have a table of their own.
//
// The name kindOf counts as a single word, as kind does. A riddled type has a lone adjective, participle,
// pronoun or verb as its name, by a list of words and by the ends -ed and -ing. Names of variables, parameters and fields
// are not counted, and no count sees whether a word is the right word.
//
// tests/style has the limits that no package may exceed.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/singularity-slurm/singularity-slurm/contrib/readability/measure"
)

// kinds are the kinds of files, as users name them.
var kinds = map[string]measure.Kind{"go": measure.Go, "go-test": measure.GoTest, "c": measure.C, "c-test": measure.CTest}

func main() {
	byPackage := flag.Bool("by-package", false, "one line for each package")
	asJSON := flag.Bool("json", false, "the counts as JSON, by package")
	kind := measure.Go
	flag.Func("kind", "with -by-package or -json: of `go`, go-test, c or c-test", func(name string) error {
		chosen, ok := kinds[name]
		if !ok {
			return fmt.Errorf("%q is none of go, go-test, c, c-test", name)
		}
		kind = chosen
		return nil
	})
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	packages, err := measure.Tree(root, kind)
	if err != nil {
		fmt.Fprintln(os.Stderr, "readability:", err)
		os.Exit(1)
	}
	switch {
	case *asJSON:
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(packages)
	case *byPackage:
		err = printPackages(os.Stdout, packages)
	default:
		err = printTree(os.Stdout, packages)
		if err == nil {
			err = printOtherKinds(os.Stdout, root)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "readability:", err)
		os.Exit(1)
	}
}

// printTree prints the counts of the whole tree beside the models'.
func printTree(w io.Writer, packages map[string]*measure.Counts) error {
	fmt.Fprint(w, "Go code without tests, beside four models. Rows of pronouns: how often they are in 1000 words of comments;\n",
		"fewer is better.\n\n")
	sum := measure.Sum(packages)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\tthis tree\t")
	for _, model := range models {
		fmt.Fprint(table, model.name, "\t")
	}
	fmt.Fprintln(table)
	for _, r := range countRows(sum, packages) {
		fmt.Fprintf(table, "%s\t%s\t", r.name, r.ours)
		for _, model := range models {
			fmt.Fprint(table, cmp.Or(model.counts[r.name], notCounted), "\t")
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nTypes with the most methods:")
	for _, t := range sum.LargestTypes(8) {
		fmt.Fprintf(w, "  %4d  %s\n", t.N, t.Name)
	}
	fmt.Fprintln(w, "\nPackages with the most files (without tests):")
	for _, p := range measure.LargestPackages(packages, 8) {
		fmt.Fprintf(w, "  %4d  %s, %d lines\n", p.N, p.Name, packages[p.Name].Lines)
	}
	return nil
}

// notCounted stands for a model's count that was not made.
const notCounted = "-"

type row struct{ name, ours string }

func countRows(sum *measure.Counts, packages map[string]*measure.Counts) []row {
	largest := measure.LargestPackages(packages, 1)[0]
	sizes, language := sizeRows(sum), languageRows(sum)
	rows := slices.Concat(sizes, []row{
		{rowWrapped, fmt.Sprintf("%.0f %%", sum.WrappedShare())},
		{rowTests, fmt.Sprintf("%.0f %%", sum.TestShare())},
	}, language)
	return append(rows,
		row{rowMethods, fmt.Sprint(sum.LargestTypes(1)[0].N)},
		row{rowPackage, fmt.Sprintf("%d / %.1fk", largest.N, float64(packages[largest.Name].Lines)/1000)},
		row{rowExamples, fmt.Sprint(sum.Examples)})
}

// sizeRows returns the rows about lengths, which each kind of files has.
func sizeRows(sum *measure.Counts) []row {
	return []row{
		{rowFunctions, fmt.Sprintf("%d/%d/%d/%d", sum.Percentile(50), sum.Percentile(90), sum.Percentile(99), sum.Percentile(100))},
		{rowLongFiles, fmt.Sprintf("%d of %d", sum.LongFiles, sum.Files)},
	}
}

// languageRows returns the rows about names and comments, which each kind of files has.
func languageRows(sum *measure.Counts) []row {
	rows := []row{
		{rowOneWord, fmt.Sprintf("%.0f %%", sum.OneWordShare())},
		{rowNameLength, fmt.Sprintf("%.1f", sum.NameLength())},
		{rowRiddles, fmt.Sprintf("%.1f %%", sum.RiddledTypeShare())},
	}
	for _, group := range measure.PronounGroups {
		rows = append(rows, row{group.Name, fmt.Sprintf("%.2f", sum.PronounRate(group.Name))})
	}
	return rows
}

// printOtherKinds prints the counts of test files and of C beside the counts of the models' test files.
func printOtherKinds(w io.Writer, root string) error {
	fmt.Fprint(w, "\nTests, and code in C:\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\tGo tests\tC\tC tests\t")
	for _, model := range models {
		fmt.Fprint(table, model.name, " tests\t")
	}
	fmt.Fprintln(table)
	var columns [][]row
	for _, kind := range []measure.Kind{measure.GoTest, measure.C, measure.CTest} {
		packages, err := measure.Tree(root, kind)
		if err != nil {
			return err
		}
		sum := measure.Sum(packages)
		columns = append(columns, slices.Concat(sizeRows(sum), languageRows(sum)))
	}
	for i, r := range columns[0] {
		fmt.Fprintf(table, "%s\t", r.name)
		for _, column := range columns {
			fmt.Fprint(table, column[i].ours, "\t")
		}
		for _, model := range models {
			fmt.Fprint(table, cmp.Or(model.tests[r.name], notCounted), "\t")
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// printPackages prints a line for each package.
func printPackages(w io.Writer, packages map[string]*measure.Counts) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tfiles\tlines\tp50\tp99\tmax\tone-word names\tlength\triddled types\twho\tit\tone\tnobody\tlargest type")
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		c := packages[folder]
		if c.Files == 0 {
			continue // of another kind only
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%.0f %% of %d\t%.1f\t%d of %d", folder, c.Files, c.Lines,
			c.Percentile(50), c.Percentile(99), c.Percentile(100), c.OneWordShare(), c.Unexported, c.NameLength(),
			c.RiddledTypes, c.Types)
		for _, group := range measure.PronounGroups {
			fmt.Fprintf(table, "\t%.1f", c.PronounRate(group.Name))
		}
		for _, t := range c.LargestTypes(1) {
			fmt.Fprintf(table, "\t%s %d", t.Name, t.N)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
