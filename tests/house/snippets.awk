# awk -v preamble=FILE -f snippets.awk README.md > snippets.cpp
#
# Turns every ```cpp block into code that is compiled and run. A block with a main() stands alone; any other is the body
# of a function that finds the preamble's `Given` around it: a model, a batch, an optimizer. Errors name README's lines.
/^```cpp$/ { inside = 1; ++blocks; line[blocks] = FNR + 1; next }
/^```/ { inside = 0; next }
inside && /^#include/ { includes = includes $0 "\n"; code[blocks] = code[blocks] "\n"; next }
inside { code[blocks] = code[blocks] $0 "\n"; if (/int main\(/) whole[blocks] = 1 }

END {
  if (inside || !blocks) {
    print FILENAME ": " (inside ? "a block is not closed" : "no ```cpp block") > "/dev/stderr"
    exit 1
  }
  printf "%s#include \"%s\"\n", includes, preamble
  for (i = 1; i <= blocks; ++i) {
    printf(whole[i] ? "namespace block_%d {\n" : "struct block_%d : Given { void main() {\n", line[i])
    printf "#line %d \"%s\"\n%s", line[i], FILENAME, code[i]
    print whole[i] ? "}" : "} };"
  }
  print "int main() {"
  for (i = 1; i <= blocks; ++i)
    printf(whole[i] ? "  block_%d::main();\n" : "  block_%d().main();\n", line[i])
  print "}"
}
