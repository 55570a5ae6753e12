// Members of string streams that are newer than the libstdc++ of GCC 8, for the command of a wheel:
// all of these templates are compiled into it.
#include <sstream>

template class std::basic_stringbuf<char>;
template class std::basic_stringstream<char>;
template class std::basic_ostringstream<char>;
