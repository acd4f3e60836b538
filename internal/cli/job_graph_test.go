package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/writ-authority/writ/workitem"
)

// itemID is the work item id of the test job with this number.
func itemID(n int) string {
	return fmt.Sprintf("workitem:repository_manager:00000000-0000-5000-8000-%012d", n)
}

// graphOf makes a graph around job 3. An edge is a parent and a child.
func graphOf(nodes int, edges ...[2]int) *workitem.Graph {
	g := &workitem.Graph{JobID: publicID(itemID(3))}
	for n := 1; n <= nodes; n++ {
		g.Nodes = append(g.Nodes, workitem.GraphNode{WorkItemID: itemID(n), Operation: "build", State: "ready", RequestID: fmt.Sprint("req-", n)})
	}
	for _, e := range edges {
		g.Edges = append(g.Edges, workitem.GraphEdge{Parent: itemID(e[0]), Child: itemID(e[1])})
	}
	return g
}

func TestGraphIsDrawnAsATree(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		graph *workitem.Graph
		want  string
	}{
		{"one job", graphOf(3), "" +
			"1  build  ready  req-1\n" +
			"2  build  ready  req-2\n" +
			"3  build  ready  req-3  ◀\n"},
		{"a diamond", graphOf(5, [2]int{1, 2}, [2]int{1, 3}, [2]int{2, 4}, [2]int{3, 4}, [2]int{4, 5}), "" +
			"1  build  ready  req-1\n" +
			"├─ 2  build  ready  req-2\n" +
			"│  └─ 4  build  ready  req-4\n" +
			"│     └─ 5  build  ready  req-5\n" +
			"└─ 3  build  ready  req-3  ◀\n" +
			"   └─ 4  (see above)\n"},
		{"two roots", graphOf(4, [2]int{1, 3}, [2]int{2, 3}, [2]int{3, 4}), "" +
			"1  build  ready  req-1\n" +
			"└─ 3  build  ready  req-3  ◀\n" +
			"   └─ 4  build  ready  req-4\n" +
			"2  build  ready  req-2\n" +
			"└─ 3  (see above)\n"},
		{"an edge to a job that is not there", graphOf(3, [2]int{1, 3}, [2]int{3, 9}), "" +
			"1  build  ready  req-1\n" +
			"└─ 3  build  ready  req-3  ◀\n" +
			"2  build  ready  req-2\n"},
		{"a cycle, which no authority makes", graphOf(3, [2]int{1, 2}, [2]int{2, 1}), "" +
			"3  build  ready  req-3  ◀\n" +
			"1  build  ready  req-1\n" +
			"└─ 2  build  ready  req-2\n" +
			"   └─ 1  (see above)\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			drawGraph(&b, style{}, test.graph)
			got := strings.ReplaceAll(b.String(), "rmjob:00000000-0000-5000-8000-00000000000", "")
			if got != test.want {
				t.Errorf("drawn as\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestGraphSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	g := graphOf(3)
	g.Truncated = true
	var b bytes.Buffer
	drawGraph(&b, style{}, g)
	if !strings.HasSuffix(b.String(), "(there are more; raise --limit)\n") {
		t.Errorf("drawn as\n%s", b.String())
	}
}

func TestDOTQuotesWhatARequestSays(t *testing.T) {
	t.Parallel()
	g := graphOf(3, [2]int{1, 3})
	g.Nodes[0].RequestID = `a "quoted" \ one`
	var b bytes.Buffer
	writeDOT(&b, g)
	for _, want := range []string{
		"digraph jobs {\n",
		`label="build\nready\na \"quoted\" \\ one"];`,
		fmt.Sprintf("  %q -> %q;\n", publicID(itemID(1)), publicID(itemID(3))),
		fmt.Sprintf("  %q [label=\"build\\nready\\nreq-3\", penwidth=2];\n", publicID(itemID(3))),
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the graph lacks %s\n%s", want, b.String())
		}
	}
}
