//= qsort  a comparator for qsort
//: unit a
static int @compare(const void *a, const void *b) { int x = *(const int *)a, y = *(const int *)b; if (x < y) return -1; if (x > y) return 1; return 0; }
int @scene(int x) { int v[6] = { 5, x, 3, 9, 1, 4 }; qsort(v, 6, sizeof *v, @compare); return v[0] * 16 + v[5]; }

//= qsort-named-by-native  a native object passes a unit's comparator to qsort
//: unit a
int @compare(const void *a, const void *b) { int x = *(const int *)a, y = *(const int *)b; if ((x ^ y) & 1) return x & 1 ? 1 : -1; return x - y; }
int @sorted(int x);
int @scene(int x) { return @sorted(x); }
//: native
int @compare(const void *a, const void *b);
int @sorted(int x) { int v[5] = { 5, x, 3, 8, 1 }; qsort(v, 5, sizeof *v, @compare); return v[0] * 16 + v[4]; }

//= qsort-r  a comparator with data for qsort_r
//: unit a
static int @compare(const void *a, const void *b, void *d) { ++*(int *)d; int x = *(const int *)a, y = *(const int *)b; if (x == y) return 0; return x < y ? -1 : 1; }
int @scene(int x) { int n = 0, v[5] = { 5, x, 3, 9, 1 }; qsort_r(v, 5, sizeof *v, @compare, &n); return v[2] * 16 + n; }

//= bsearch  a comparator for bsearch
//: unit a
static int @compare(const void *a, const void *b) { int x = *(const int *)a, y = *(const int *)b; if (x < y) return -1; return x > y; }
int @scene(int x) { int v[7] = { 1, 3, 5, 7, 9, 11, 13 }; int *p = bsearch(&x, v, 7, sizeof *v, @compare); return p ? *p : 99; }

//= lsearch  comparators for lfind and lsearch
//: unit a
#include <search.h>
static int @compare(const void *a, const void *b) { if (*(const int *)a == *(const int *)b) return 0; TICK(1); return 1; }
int @scene(int x) { int v[8] = { 4, 6, 8 }; size_t n = 3; lsearch(&x, v, &n, sizeof *v, @compare); int *p = lfind(&x, v, &n, sizeof *v, @compare); return (int)n * 10 + (p ? *p : 0); }

//= tsearch  tsearch, tfind, twalk and tdestroy
//: unit a
#include <search.h>
static int @seen, @freed;
static int @compare(const void *a, const void *b) { int x = *(const int *)a, y = *(const int *)b; if (x < y) return -1; return x > y; }
static void @visit(const void *n, VISIT v, int d) { if (v == preorder || v == leaf) @seen += **(int *const *)n + d; }
static void @drop(void *p) { if (*(int *)p & 1) @freed++; }
int @scene(int x) {
  static int v[6]; void *root = 0;
  for (int i = 0; i < 6; i++) { v[i] = (i * 5 + x) % 7; tsearch(&v[i], &root, @compare); }
  twalk(root, @visit); if (tfind(&x, &root, @compare)) @seen++;
  tdestroy(root, @drop); return (@seen + 16 * @freed) & 255;
}

//= scandir  a filter and an order for scandir
//: unit a
#include <dirent.h>
static int @filter(const struct dirent *d) { if (d->d_name[0] == '.') return 0; return 1; }
static int @dots(const struct dirent *d) { return d->d_name[0] == '.'; }
static int @order(const struct dirent **a, const struct dirent **b) { size_t x = strlen((*a)->d_name), y = strlen((*b)->d_name); if (x > y) return -1; return x < y; }
int @scene(int x) {
  struct dirent **list; int n = scandir("tree", &list, @filter, 0), m = 0;
  for (int i = 0; i < n; i++) { m += (int)strlen(list[i]->d_name); free(list[i]); }
  if (n >= 0) free(list);
  n = scandir("tree", &list, @dots, @order);
  for (int i = 0; i < n; i++) { m = m * 3 + (int)strlen(list[i]->d_name); free(list[i]); }
  if (n >= 0) free(list);
  return m + x;
}

//= ftw  what ftw and nftw call
//: unit a
#include <ftw.h>
static int @n;
static int @visit(const char *p, const struct stat *s, int f) { (void)p; (void)s; if (f == FTW_F) @n += 10; else @n++; return 0; }
static int @deep(const char *p, const struct stat *s, int f, struct FTW *w) { (void)p; (void)s; if (w->level > 1) @n += 3; return f == FTW_F && w->level > 2; }
int @scene(int x) { ftw("tree", @visit, 4); nftw("tree", @deep, 4, $[0|FTW_DEPTH|FTW_PHYS]); return @n + x; }

//= glob  the function of glob for errors
//: unit a
#include <glob.h>
static int @errors;
static int @failed(const char *p, int e) { (void)p; if (e == EACCES) return 1; @errors++; return 0; }
int @scene(int x) { glob_t g; int r = glob("none/*/*", 0, @failed, &g); if (!r) globfree(&g); r = glob("tree/*/*", 0, @failed, &g); int n = r ? 0 : (int)g.gl_pathc; if (!r) globfree(&g); return n * 16 + @errors + x; }

//= glob-altdirfunc  folders that functions of the program list
//: unit a
#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>
static int @at, @tests; static struct dirent @entry;
static void *@open(const char *p) { (void)p; @at = 0; return &@at; }
static struct dirent *@read(void *d) { (void)d; if (@at >= 3) return 0; @entry.d_ino = 1; @entry.d_type = DT_REG; snprintf(@entry.d_name, 32, "f%d", @at++); return &@entry; }
static void @close(void *d) { if (d) @tests += 2; }
static int @stat(const char *p, struct stat *s) { (void)p; memset(s, 0, sizeof *s); s->st_mode = S_IFREG; @tests++; return 0; }
int @scene(int x) {
  glob_t g; memset(&g, 0, sizeof g);
  g.gl_opendir = @open; g.gl_readdir = (void *)@read; g.gl_closedir = @close; g.gl_lstat = (void *)@stat; g.gl_stat = (void *)@stat;
  int r = glob("made/f*", GLOB_ALTDIRFUNC | GLOB_NOSORT, 0, &g); int n = r ? 0 : (int)g.gl_pathc; if (!r) globfree(&g);
  return n * 16 + x;
}

//= obstack  chunks of an obstack that the program allocates
//: unit a
#include <obstack.h>
static int @chunks;
static void *@chunk(size_t n) { @chunks++; if (n > 5000) TICK(1); return malloc(n); }
static void @unchunk(void *p) { if (p) @chunks += 16; free(p); }
#define obstack_chunk_alloc @chunk
#define obstack_chunk_free @unchunk
int @scene(int x) {
  struct obstack o; obstack_init(&o);
  for (int i = 0; i < x; i++) { char *p = obstack_alloc(&o, 1500); p[0] = 1; }
  obstack_free(&o, 0); return @chunks & 255;
}
#undef obstack_chunk_alloc
#undef obstack_chunk_free

//= atexit  functions for the end, of three kinds
//: unit a
extern int __cxa_atexit(void (*)(void *), void *, void *);
static int @left = $n;
static void @last(void) { if (@left > 2) TICK(@left); printf("last %d\n", @left); }
static void @on(int status, void *p) { (void)status; if (p) @left += 3; }
static void @cxa(void *p) { if (p) @left -= *(int *)p; else TICK(1); }
int @scene(int x) { atexit(@last); on_exit(@on, &@left); static int one = 1; __cxa_atexit(@cxa, &one, 0); return x; }

//= atexit-by-native  a native object registers a unit's function for the end
//: unit a
void @at_end(void) { static int n; if (n++ < 1) printf("end %d\n", n); else TICK(n); }
void @register(void);
int @scene(int x) { @register(); if (x > 3) @register(); return x; }
//: native
void @at_end(void);
void @register(void) { atexit(@at_end); }

//= atexit-nested  a function for the end registers another
//: unit a
static void @second(void) { TICK(1); puts("second"); }
static void @first(void) { if (sink < 1 << 30) atexit(@second); puts("first"); }
int @scene(int x) { atexit(@first); return x; }

//= constructors  constructors and destructors with priorities, of units and native objects
//: unit a
static int @order;
int @note(int n) { @order = @order * 3 + n; if (@order > 1000) @order &= 255; return @order; }
__attribute__((constructor(200))) static void @c1(void) { @note(1); }
__attribute__((constructor)) static void @c2(void) { if (@order) @note(2); }
__attribute__((destructor(200))) static void @d1(void) { if (@order & 1) @note(3); printf("gone %d\n", @order); }
int @scene(int x) { return @order + x; }
//: native object
int @note(int n);
__attribute__((constructor(150))) static void @c3(void) { @note(5); }
__attribute__((destructor)) static void @d3(void) { @note(6); }
//: unit b
int @note(int n);
__attribute__((constructor(250))) static void @c4(void) { @note(7); }

//= init-array-native  a native object names a unit's function in its list of constructors
//: unit a
static int @count;
void @begin(int argc, char **argv, char **env) { (void)argv; (void)env; if (argc > 0) @count++; @count++; }
int @scene(int x) { return @count + x; }
//: native object
void @begin(int argc, char **argv, char **env);
__attribute__((section(".init_array"), used)) static void (*@entry)(int, char **, char **) = @begin;

//= error-progname  the function of error() for the program's name
//: alone error
//: unit a
#include <error.h>
static int @named;
static void @name(void) { @named++; if (@named > 1) fputs("again", stderr); else fputs("once", stderr); }
int @scene(int x) { error_print_progname = @name; for (int i = 0; i < 2; i++) error(0, 0, "told %d", i); return @named + x; }

//= printf-specifier  a conversion of printf that the program adds
//: alone printf
//: unit a
#include <printf.h>
static int @print(FILE *f, const struct printf_info *i, const void *const *a) { int v = *(const int *)a[0]; if (i->width > 3) return fprintf(f, "<<%d>>", v); return fprintf(f, "<%d>", v); }
static int @size(const struct printf_info *i, size_t n, int *t, int *s) { (void)i; if (n > 0) { t[0] = PA_INT; s[0] = sizeof(int); } return 1; }
int @scene(int x) {
  register_printf_specifier('Y', @print, @size); char t[64]; const char *volatile f = x & 1 ? "%Y %5Y\n" : "%Y%Y\n";
  return snprintf(t, sizeof t, f, x, x + 1);
}

//= dl-iterate-phdr  a function that is called for each module
//: unit a
#include <link.h>
static int @visit(struct dl_phdr_info *i, size_t n, void *d) { (void)n; if (i->dlpi_phnum > 0) ++*(int *)d; return 1; }
int @scene(int x) { int n = 0; dl_iterate_phdr(@visit, &n); return n + x; }

//= regex-and-others  functions of the C library that call nobody
//: unit a
#include <ctype.h>
static int @score(const char *t) { int s = 0; for (; *t; t++) if (isupper((unsigned char)*t)) s += 2; else if (strchr("aeiou", *t)) s++; return s; }
int @scene(int x) { char t[32]; snprintf(t, sizeof t, "Some %d Words", x); return @score(t) + (int)strtol("12", 0, 10) + abs(-x); }

//= argp  argp calls a parser of the program
//: unit a
#include <argp.h>
static error_t @parse(int key, char *arg, struct argp_state *s) { (void)s; if (key == 'v') TICK(1); else if (key == ARGP_KEY_ARG) return arg[0] == 'z' ? EINVAL : 0; else return ARGP_ERR_UNKNOWN; return 0; }
int @scene(int x) {
  struct argp_option o[] = { { "verbose", 'v', 0, 0, "more", 0 }, { 0 } }; struct argp a = { o, @parse, 0, 0, 0, 0, 0 };
  char n[] = "p", v[] = "-v", w[] = "word", *words[] = { n, v, w, 0 };
  return argp_parse(&a, x > 2 ? 3 : 2, words, ARGP_NO_EXIT | ARGP_NO_ERRS, 0, 0) + x;
}

//= hcreate-and-insque  tables of the C library, without callbacks
//: unit a
#include <search.h>
int @scene(int x) { if (!hcreate(16)) return 90; ENTRY e = { (char *)"key", (void *)0 }; ENTRY *r = hsearch(e, ENTER); int v = r ? 3 : 4; e.key = (char *)"none"; if (!hsearch(e, FIND)) v += x; hdestroy(); return v; }
