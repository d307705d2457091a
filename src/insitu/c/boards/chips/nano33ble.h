/* nRF52840 on the Arduino Nano 33 BLE, never run: the UART is on the pins TX (P1.03) and RX (P1.10), for an adapter with
 * 3.3 V. The USB socket leads to the chip itself and has no UART behind it: the Arduino sketch talks through that.
 */
#define SEND_PORT 1u
#define SEND_PIN 3u
#define RECEIVE_PORT 1u
#define RECEIVE_PIN 10u
