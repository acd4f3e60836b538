module github.com/writ-authority/writ/bench

go 1.26.0

require github.com/writ-authority/writ v0.0.0

require golang.org/x/sys v0.50.0 // indirect

replace github.com/writ-authority/writ => ../
