// The part of Arduino's own header that the sketches use; arduino.cpp has the functions.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct SerialPort {
  int held = -1;
  void begin(long baud);
  int available();
  int read();
  size_t write(const uint8_t *from, size_t count);
  void print(const char *text);
  void println(const char *text);
  void println(double value, int digits);
};

extern SerialPort Serial;
void delay(unsigned long milliseconds);
void setup();
void loop();
