//= cookie-read  fgets reads through a function of the program
//: unit a
static int @calls;
static ssize_t @rd(void *c, char *b, size_t n) { (void)c; (void)n; @calls++; if (@calls > 3) return 0; b[0] = (char)('a' + @calls); b[1] = '\n'; return 2; }
int @scene(int x) {
  cookie_io_functions_t f = { .read = @rd }; FILE *s = fopencookie(0, "r", f); char line[16]; int n = x;
  while (fgets(line, sizeof line, s)) n += line[0];
  fclose(s); return n & 255;
}

//= cookie-write  fprintf and fflush write through a function of the program
//: unit a
static int @bytes, @closed;
static ssize_t @wr(void *c, const char *b, size_t n) { (void)c; for (size_t i = 0; i < n; i++) if (b[i] == '\n') @bytes += 10; else @bytes++; return (ssize_t)n; }
static int @cl(void *c) { (void)c; if (@bytes > 5) @closed++; return 0; }
int @scene(int x) {
  cookie_io_functions_t f = { .write = @wr, .close = @cl }; FILE *s = fopencookie(0, "w", f);
  fprintf(s, "%d words\n", x); fflush(s); $[setvbuf(s, 0, _IONBF, 0);|] fputs("more", s); fputc('x', s); fclose(s);
  return (@bytes + 100 * @closed) & 255;
}

//= cookie-unflushed  what is not flushed is written at the end of the program
//: unit a
static int @bytes;
static ssize_t @wr(void *c, const char *b, size_t n) { (void)c; @bytes += (int)n; if (b[0] == 'e') @bytes += 1000; return (ssize_t)n; }
int @scene(int x) {
  cookie_io_functions_t f = { .write = @wr }; FILE *s = fopencookie(0, "w", f);
  fprintf(s, "%s", x & 1 ? "even so" : "odd"); return x;
}

//= cookie-fflush-all  fflush of all streams writes through a function of the program
//: unit a
static int @bytes;
static ssize_t @wr(void *c, const char *b, size_t n) { (void)c; @bytes += (int)n; if (n > 4) @bytes += b[0] & 7; return (ssize_t)n; }
int @scene(int x) {
  cookie_io_functions_t f = { .write = @wr }; FILE *s = fopencookie(0, "w", f);
  fprintf(s, "number %d", x); fflush(0); int n = @bytes; fclose(s); return n;
}

//= cookie-seek  fseek and ftell through a function of the program
//: unit a
static off64_t @at;
static ssize_t @rd(void *c, char *b, size_t n) { (void)c; size_t k = 0; while (k < n && @at < 40) { b[k++] = (char)('A' + @at % 26); @at++; } return (ssize_t)k; }
static int @sk(void *c, off64_t *o, int w) { (void)c; if (w == SEEK_SET) @at = *o; else if (w == SEEK_CUR) @at += *o; else return -1; *o = @at; return 0; }
int @scene(int x) { cookie_io_functions_t f = { .read = @rd, .seek = @sk }; FILE *s = fopencookie(0, "r", f); int n = fgetc(s); fseek(s, x, SEEK_SET); n += fgetc(s); n += (int)ftell(s); fclose(s); return n & 255; }

//= cookie-native  a native object opens a stream of a unit's functions, and reads it by getline
//: unit a
ssize_t @rd(void *c, char *b, size_t n) { int *left = c; if (*left <= 0 || n < 3) return 0; b[0] = (char)('0' + *left); b[1] = *left & 1 ? 'o' : 'e'; b[2] = '\n'; --*left; return 3; }
int @read_all(int x);
int @scene(int x) { return @read_all(x) & 255; }
//: native
ssize_t @rd(void *c, char *b, size_t n);
int @read_all(int x) {
  cookie_io_functions_t f = { .read = @rd }; FILE *s = fopencookie(&x, "r", f); char *l = 0; size_t z = 0; int n = 0;
  while (getline(&l, &z, s) > 0) n += l[0] + l[1];
  free(l); fclose(s); return n;
}

//= cookie-scanf  fscanf reads through a function of the program
//: unit a
static int @turn;
static ssize_t @rd(void *c, char *b, size_t n) { (void)c; (void)n; if (@turn++ > 2) return 0; memcpy(b, "12 ", 3); return 3; }
int @scene(int x) { cookie_io_functions_t f = { .read = @rd }; FILE *s = fopencookie(0, "r", f); int v, n = x; while (fscanf(s, "%d", &v) == 1) n += v; fclose(s); return n & 255; }

//= memstream  a stream into memory, which calls nobody
//: unit a
int @scene(int x) { char *p = 0; size_t n = 0; FILE *s = open_memstream(&p, &n); for (int i = 0; i < x; i++) fprintf(s, i & 1 ? "odd %d " : "%d ", i); fclose(s); int r = (int)n; free(p); return r; }

//= stdout-by-cookie  stdout is replaced by a stream of the program's functions for a while
//: unit a
static int @bytes;
static ssize_t @wr(void *c, const char *b, size_t n) { (void)c; for (size_t i = 0; i < n; i++) if (b[i] == 'e') @bytes++; return (ssize_t)n; }
int @scene(int x) {
  cookie_io_functions_t f = { .write = @wr }; FILE *own = stdout, *s = fopencookie(0, "w", f);
  setvbuf(s, 0, _IOLBF, 0); stdout = s; printf("three %d\n", x); puts("eleven"); perror(0); stdout = own; fclose(s); return @bytes + x;
}
