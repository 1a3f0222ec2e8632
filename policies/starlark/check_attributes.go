// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// attributeKind checks X.name.
func (c *checker) attributeKind(e *syntax.DotExpr) string {
	of := c.kindOf(e.X)
	switch v := values[of]; {
	case v != nil:
		if !slices.Contains(v.AttrNames(), e.Name.Name) {
			c.addProblem(e.Name.NamePos, "a %s has no .%s: it has %s", of, e.Name.Name, strings.Join(v.AttrNames(), ", "))
		}
	case of == "" && !anyTypeHasAttribute(e.Name.Name), strings.HasPrefix(of, "(") || of == "intent",
		strings.HasPrefix(of, "[") && !slices.Contains(starlark.NewList(nil).AttrNames(), e.Name.Name):
		c.addProblem(e.Name.NamePos, "nothing that can be here has .%s", e.Name.Name)
	}
	if of == "cluster" && e.Name.Name == "jobs" {
		return "(job)"
	}
	if of == "cluster" && e.Name.Name == "nodes" {
		return "(node)"
	}
	return ""
}

// anyTypeHasAttribute reports whether any value at all has such an attribute.
func anyTypeHasAttribute(name string) bool {
	for _, v := range values {
		if slices.Contains(v.AttrNames(), name) {
			return true
		}
	}
	for _, v := range []starlark.HasAttrs{starlark.String(""), starlark.NewList(nil), starlark.NewDict(0), starlark.NewSet(0), starlark.Bytes("")} {
		if slices.Contains(v.AttrNames(), name) {
			return true
		}
	}
	return false
}

// texts has all values of the attributes that have a fixed list of values.
var texts = map[string][]string{
	"job.state": valueNames[sdk.JobState](sdk.JobStates), "job.held_by": valueNames[sdk.Holder](sdk.Holders),
	"job.tier": valueNames[sdk.Tier](sdk.Tiers), "node.state": valueNames[sdk.NodeState](sdk.NodeStates),
	"cluster.weekday": weekdays[:],
}

// valueNames lists the names of the values from 0 to count - 1.
func valueNames[T interface {
	~uint8
	String() string
}](count T) []string {
	var names []string
	for value := range count {
		names = append(names, value.String())
	}
	return names
}

// binaryKind checks comparisons with constants of the file.
func (c *checker) binaryKind(e *syntax.BinaryExpr) string {
	switch e.Op {
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.GT, syntax.LE, syntax.GE:
		c.checkComparison(e.X, e.Y)
		c.checkComparison(e.Y, e.X)
	case syntax.IN, syntax.NOT_IN:
		switch list := e.Y.(type) {
		case *syntax.ListExpr:
			c.compareAll(e.X, list.List)
		case *syntax.TupleExpr:
			c.compareAll(e.X, list.List)
		case *syntax.ParenExpr:
			if inner, ok := list.X.(*syntax.TupleExpr); ok {
				c.compareAll(e.X, inner.List)
			}
		}
	}
	kind := c.commonKind(e.X, e.Y)
	if e.Op != syntax.PLUS {
		return ""
	}
	return kind
}

func (c *checker) compareAll(x syntax.Expr, all []syntax.Expr) {
	for _, y := range all {
		c.checkComparison(x, y)
	}
}

// checkComparison checks whether an attribute can ever have the value of a literal.
func (c *checker) checkComparison(x, y syntax.Expr) {
	dot, ok := x.(*syntax.DotExpr)
	literal, isLiteral := y.(*syntax.Literal)
	if !ok || !isLiteral {
		return
	}
	before := len(c.wrong)
	of := c.kindOf(dot.X)
	c.wrong = c.wrong[:before] // said when the expression itself is looked into
	v := values[of]
	if v == nil {
		return
	}
	value, err := v.Attr(dot.Name.Name)
	if err != nil || value == nil {
		return
	}
	text, isText := literal.Value.(string)
	_, wantsText := value.(starlark.String)
	if isText != wantsText {
		c.addProblem(literal.TokenPos, "a %s's .%s is of type %s and is compared with %s", of, dot.Name.Name, value.Type(), literal.Raw)
		return
	}
	if all := texts[of+"."+dot.Name.Name]; all != nil && isText && !slices.Contains(all, text) {
		c.addProblem(literal.TokenPos, "a %s's .%s is never %s: %s", of, dot.Name.Name, literal.Raw, strings.Join(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" }), ", "))
	}
}

// checkVerb checks the arguments of a verb.
func (c *checker) checkVerb(e *syntax.CallExpr, verb sdk.Verb) {
	names := []string{"job", "reason"}
	required := 2
	for _, name := range takes[verb] {
		plain := strings.TrimSuffix(name, "?")
		names = append(names, plain)
		if plain == name {
			required++ // these come before the parameters that may be left out
		}
	}
	names = append(names, "for_job")
	given := map[string]bool{}
	for i, arg := range e.Args {
		switch arg := arg.(type) {
		case *syntax.UnaryExpr:
			if arg.Op == syntax.STAR || arg.Op == syntax.STARSTAR {
				return // the kind is not known
			}
		case *syntax.BinaryExpr:
			if name, ok := arg.X.(*syntax.Ident); ok && arg.Op == syntax.EQ {
				if !slices.Contains(names, name.Name) {
					c.addProblem(name.NamePos, "%v takes no %s: it takes %s", verb, name.Name, strings.Join(names, ", "))
				}
				given[name.Name] = true
				continue
			}
		}
		if i >= len(names) {
			start, _ := arg.Span()
			c.addProblem(start, "%v takes at most %d arguments: %s", verb, len(names), strings.Join(names, ", "))
			return
		}
		given[names[i]] = true
	}
	for _, name := range names[:required] {
		if !given[name] {
			start, _ := e.Span()
			c.addProblem(start, "%v needs %s", verb, name)
		}
	}
}
