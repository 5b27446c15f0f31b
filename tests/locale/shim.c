/* Preloaded into a program: it then does what many do first, and takes the locale of its user. */
#include <locale.h>

__attribute__((constructor)) static void take_locale(void) { setlocale(LC_ALL, ""); }
