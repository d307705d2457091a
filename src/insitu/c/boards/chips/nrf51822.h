/* nRF51822 on the BBC micro:bit (version 1): the debug probe's USB serial port is on P0.24 (sends) and P0.25 (receives).
 * Runs on QEMU's microbit.
 */
#define SEND_PORT 0u
#define SEND_PIN 24u
#define RECEIVE_PORT 0u
#define RECEIVE_PIN 25u
