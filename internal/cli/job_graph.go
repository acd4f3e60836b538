package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

func (a *app) jobGraph() *cobra.Command {
	var dot bool
	var limit int
	c := &cobra.Command{
		Use:   "graph JOB",
		Short: "Draw what a job depends on and what depends on it",
		Long: "Graph draws a tree in which a job stands below a parent that must succeed before it. A job\n" +
			"with several parents is drawn once; below the others a line refers to it. --dot writes the\n" +
			"graph in the language of Graphviz.",
		Example: "  writ job graph JOB\n  writ job graph JOB --dot | dot -Tsvg > jobs.svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := either("--dot and --json", dot, a.json); err != nil {
				return err
			}
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				g, err := jobs.Graph(c.Context(), &workitem.GraphInput{JobID: args[0], Limit: set(c, "limit", limit)})
				if err != nil {
					return err
				}
				if dot {
					writeDOT(a.out, g)
					return nil
				}
				return a.answer("writ.job-graph.v1", g, func() { drawGraph(a.out, a.style, g) })
			})
		},
	}
	c.Flags().BoolVar(&dot, "dot", false, "write DOT")
	c.Flags().IntVar(&limit, "limit", 200, "jobs at most, 1 to 1000")
	return c
}

// drawing is a graph on its way to being drawn as a tree.
type drawing struct {
	w        io.Writer
	style    style
	center   string
	nodes    map[string]*workitem.GraphNode
	children map[string][]string
	drawn    map[string]bool
}

// drawGraph draws a graph from the jobs without parents down. Nodes and edges are
// drawn in the order in which the graph has them.
func drawGraph(w io.Writer, s style, g *workitem.Graph) {
	d := &drawing{
		w: w, style: s, center: publicID(g.JobID),
		nodes: map[string]*workitem.GraphNode{}, children: map[string][]string{}, drawn: map[string]bool{},
	}
	for i := range g.Nodes {
		d.nodes[g.Nodes[i].WorkItemID] = &g.Nodes[i]
	}
	child := map[string]bool{}
	for _, e := range g.Edges {
		if d.nodes[e.Parent] != nil && d.nodes[e.Child] != nil {
			d.children[e.Parent] = append(d.children[e.Parent], e.Child)
			child[e.Child] = true
		}
	}
	for i := range g.Nodes {
		if id := g.Nodes[i].WorkItemID; !child[id] {
			d.draw(id, "", "")
		}
	}
	for i := range g.Nodes { // those of a cycle, if a server has one
		if id := g.Nodes[i].WorkItemID; !d.drawn[id] {
			d.draw(id, "", "")
		}
	}
	if g.Truncated {
		fmt.Fprintln(w, "(there are more; raise --limit)")
	}
}

// draw draws one job behind the lines that lead to it, and its children behind
// those of below.
func (d *drawing) draw(id, before, below string) {
	n := d.nodes[id]
	name := publicID(id)
	if d.drawn[id] {
		fmt.Fprintf(d.w, "%s%s\n", before, d.style.faint(name+"  (see above)"))
		return
	}
	d.drawn[id] = true
	mark := ""
	if name == d.center {
		name, mark = d.style.bold(name), "  ◀"
	}
	fmt.Fprintf(d.w, "%s%s  %s  %s  %s%s\n", before, name, n.Operation, d.style.stateCell(n.State), line(n.RequestID), mark)
	for i, c := range d.children[id] {
		if i == len(d.children[id])-1 {
			d.draw(c, below+"└─ ", below+"   ")
		} else {
			d.draw(c, below+"├─ ", below+"│  ")
		}
	}
}

// writeDOT writes a graph for Graphviz. An arrow leads from a parent to its child.
func writeDOT(w io.Writer, g *workitem.Graph) {
	colours := map[string]string{
		"succeeded": "palegreen", "failed": "lightcoral", "dead-letter": "lightcoral", "cancelled": "lightgrey",
		"running": "lightblue", "leased": "lightblue", "submitted": "lightyellow",
	}
	fmt.Fprintln(w, "digraph jobs {\n  rankdir=LR;\n  node [shape=box, style=filled, fillcolor=white];")
	for _, n := range g.Nodes {
		more := ""
		if c := colours[n.State]; c != "" {
			more = ", fillcolor=" + c
		}
		if publicID(n.WorkItemID) == publicID(g.JobID) {
			more += ", penwidth=2"
		}
		label := strings.Join([]string{n.Operation, n.State, line(n.RequestID)}, "\n")
		fmt.Fprintf(w, "  %s [label=%s%s];\n", dotString(publicID(n.WorkItemID)), dotString(label), more)
	}
	for _, e := range g.Edges {
		fmt.Fprintf(w, "  %s -> %s;\n", dotString(publicID(e.Parent)), dotString(publicID(e.Child)))
	}
	fmt.Fprintln(w, "}")
}

// dotString quotes text for DOT, where a backslash begins an escape.
func dotString(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
