// What a sketch sees of Arduino, on a host: its serial port is standard input and output, and loop() runs until the end.
#include "Arduino.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

SerialPort Serial;
static bool ended = false;

void SerialPort::begin(long) {}

int SerialPort::available() {
  struct pollfd line = {0, POLLIN, 0};
  if (held >= 0) {
    return 1;
  }
  if (poll(&line, 1, 1) > 0) {
    unsigned char byte;
    if (::read(0, &byte, 1) == 1) {
      held = byte;
    } else {
      ended = true;
    }
  }
  return held >= 0;
}

int SerialPort::read() {
  const int byte = available() ? held : -1;
  held = -1;
  return byte;
}

size_t SerialPort::write(const uint8_t *from, size_t count) {
  return ::write(1, from, count) == (ssize_t)count ? count : 0;
}

void SerialPort::print(const char *text) {
  ::write(1, text, strlen(text));
}

void SerialPort::println(const char *text) {
  print(text);
  print("\n");
}

void SerialPort::println(double value, int digits) {
  char text[40];
  snprintf(text, sizeof text, "%.*f\n", digits, value);
  print(text);
}

void delay(unsigned long) {
  ended = true;
}

int main() {
  for (setup(); !ended;) {
    loop();
  }
  return 0;
}
