/* The tests of the glue: connections, attributes and the queue. scripts/test-zephyr builds and runs them. */
#include "device.h"

static void holds_a_reference_until_the_disconnection_was_handled(void) {
    start();
    connect(&hosts[0]);
    CHECK(hosts[0].references == 1);
    settle();
    CHECK(hosts[0].references == 1);
    disconnect(&hosts[0]);
    CHECK(hosts[0].references == 1);
    settle();
    CHECK(hosts[0].references == 0);
    /* A failed connection is no connection. */
    otaflash_callbacks.connected(&hosts[0], 0x3E);
    CHECK(hosts[0].references == 0);
}

static void answers_wrong_requests_with_att_errors(void) {
    const uint8_t sync[2] = {OTA_SYNC, 7};
    uint8_t value[OTAFLASH_LONGEST + 1] = {0}, bytes[300];
    start();
    connect(&hosts[0]);
    settle();
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == -OTA_ATT_NOT_SUBSCRIBED);
    subscribe(&hosts[0], CONTROL_CCC, true);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 1) == -OTA_ATT_INVALID_LENGTH);
    CHECK(write_attribute(&hosts[0], DATA, value, sizeof value) == -OTA_ATT_INVALID_LENGTH);
    CHECK(attribute(DATA)->write(&hosts[0], attribute(DATA), value, 4, 1, 0) == -OTA_ATT_INVALID_OFFSET);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    settle();
    CHECK(world.notifications == 1 && world.notified[0] == (0x80 | OTA_SYNC) && world.notified[1] == 7);
    CHECK(world.notified_attribute == attribute(CONTROL));
    ssize_t count = attribute(INFO)->read(&hosts[0], attribute(INFO), bytes, sizeof bytes, 0);
    CHECK(count > 50);
    CHECK(attribute(INFO)->read(&hosts[0], attribute(INFO), bytes, sizeof bytes, 10) == count - 10);
    CHECK(attribute(INFO)->read(&hosts[0], attribute(INFO), bytes, sizeof bytes, 300) == -OTA_ATT_INVALID_OFFSET);
    disconnect(&hosts[0]);
    settle();
}

static void restores_the_subscriptions_of_a_bonded_host(void) {
    const uint8_t sync[2] = {OTA_SYNC, 8};
    start();
    connect(&hosts[0]);
    hosts[0].subscribed[0] = true; /* by the stack, from the bond */
    otaflash_callbacks.security_changed(&hosts[0], BT_SECURITY_L2, BT_SECURITY_ERR_SUCCESS);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    settle();
    CHECK(world.notifications == 1);
    disconnect(&hosts[0]);
    settle();
    /* The stack restores them before the link is encrypted, and the host may never encrypt it. */
    otaflash_callbacks.connected(&hosts[0], 0);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    settle();
    CHECK(world.notifications == 2);
    disconnect(&hosts[0]);
    settle();
    /* Or between the connection and the first request. */
    connect(&hosts[0]);
    hosts[0].subscribed[0] = true;
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    settle();
    CHECK(world.notifications == 3);
    disconnect(&hosts[0]);
    settle();
}

/* Skips a sequence number, which the core reports in Progress at once. */
static void send_with_a_gap(void) {
    uint8_t progress[12], value[10] = {0};
    CHECK(attribute(PROGRESS)->read(&hosts[0], attribute(PROGRESS), progress, 12, 0) == 12);
    value[0] = (uint8_t)(progress[2] + 1);
    value[1] = progress[3];
    world.notifications = 0;
    CHECK(write_attribute(&hosts[0], DATA, value, sizeof value) == sizeof value);
    settle();
}

static void notifies_progress_while_the_host_is_subscribed(void) {
    uint8_t begin[19] = {OTA_BEGIN, 1, OTA_OBJECT_ENVELOPE, 200};
    start();
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    subscribe(&hosts[0], PROGRESS_CCC, true);
    CHECK(request(begin, sizeof begin) == OTA_OK);
    send_with_a_gap();
    CHECK(world.notifications == 1 && world.notified_attribute == attribute(PROGRESS) && world.notified_size == 12);
    subscribe(&hosts[0], PROGRESS_CCC, false);
    send_with_a_gap();
    CHECK(world.notifications == 0);
    disconnect(&hosts[0]);
    settle();
}

static void discards_the_notifications_of_a_connection_that_has_ended(void) {
    const uint8_t sync[2] = {OTA_SYNC, 12};
    start();
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    settle();
    world.has_buffer = false;
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    settle();
    /* The next host has the same index, and subscribes before the stack has a buffer again. */
    disconnect(&hosts[0]);
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    settle();
    world.has_buffer = true;
    settle();
    CHECK(world.notifications == 0);
    disconnect(&hosts[0]);
    settle();
}

static void a_host_without_buffers_does_not_delay_another_host(void) {
    const uint8_t sync[2] = {OTA_SYNC, 13};
    start();
    for (int i = 0; i < 2; i++) {
        connect(&hosts[i]);
        subscribe(&hosts[i], CONTROL_CCC, true);
    }
    settle();
    world.blocked = &hosts[0];
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    CHECK(write_attribute(&hosts[1], CONTROL, sync, 2) == 2);
    settle();
    CHECK(world.notifications == 1);
    world.blocked = NULL;
    settle();
    CHECK(world.notifications == 2);
    disconnect(&hosts[0]);
    disconnect(&hosts[1]);
    settle();
}

static void requires_an_authenticated_link_only_if_configured(void) {
#ifdef CONFIG_OTAFLASH_AUTHENTICATED
    const uint16_t expected = BT_GATT_PERM_WRITE_AUTHEN | BT_GATT_PERM_WRITE_LESC;
#else
    const uint16_t expected = BT_GATT_PERM_WRITE;
#endif
    CHECK(attribute(CONTROL)->perm == expected && attribute(DATA)->perm == expected);
    CHECK(attribute(CONTROL_CCC)->perm == (BT_GATT_PERM_READ | expected));
}

static void announces_the_sizes_of_the_slot(void) {
    /* 0x1E000 is 128 KB less two pages: one for a trailer for 128 sectors, and one for swap using move. */
    const uint8_t image[] = {5, 5, OTA_FORMAT_MCUBOOT, 0x00, 0xE0, 0x01, 0x00};
    const uint8_t base[] = {11, 5, 1, 0x00, 0xE0, 0x01, 0x00};
    uint8_t info[300];
    int found = 0;
    start();
    connect(&hosts[0]);
    settle();
    int locked = world.locked;
    ssize_t count = attribute(INFO)->read(&hosts[0], attribute(INFO), info, sizeof info, 0);
    CHECK(world.locked == locked + 1);
    for (ssize_t i = 0; i + 7 <= count; i++) found += !memcmp(info + i, image, 7) + !memcmp(info + i, base, 7);
    CHECK(found == 2);
    disconnect(&hosts[0]);
    settle();
}

static void drops_only_data_if_the_queue_is_full(void) {
    uint8_t value[20] = {0};
    const uint8_t sync[2] = {OTA_SYNC, 9};
    int accepted = 0;
    start();
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    settle();
    /* A flood of Data is accepted by the stack's callback, but leaves the places for requests. */
    for (int i = 0; i < 100; i++) CHECK(write_attribute(&hosts[0], DATA, value, sizeof value) == sizeof value);
    /* A flood of requests gets an error, but leaves the places for connections. */
    while (write_attribute(&hosts[0], CONTROL, sync, 2) == 2) accepted++;
    CHECK(accepted >= 4 && accepted <= 4 * CONFIG_BT_MAX_CONN);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == -OTA_ATT_INSUFFICIENT_RESOURCES);
    connect(&hosts[1]);
    disconnect(&hosts[0]);
    disconnect(&hosts[1]);
    settle();
    CHECK(hosts[0].references == 0 && hosts[1].references == 0);
}

static void keeps_the_order_of_the_events(void) {
    uint8_t value[20] = {0};
    const uint8_t sync[2] = {OTA_SYNC, 10};
    start();
    /* All events wait in the queue before the thread runs. */
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    CHECK(write_attribute(&hosts[0], DATA, value, sizeof value) == sizeof value);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    disconnect(&hosts[0]);
    connect(&hosts[1]);
    settle();
    CHECK(world.notifications == 1 && world.notified[1] == 10);
    CHECK(hosts[0].references == 0 && hosts[1].references == 1);
    disconnect(&hosts[1]);
    settle();
}

static void sends_a_notification_again_if_the_stack_had_no_buffer(void) {
    const uint8_t sync[2] = {OTA_SYNC, 11};
    start();
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    settle();
    world.has_buffer = false;
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    settle();
    CHECK(world.notifications == 0);
    world.has_buffer = true;
    settle();
    CHECK(world.notifications == 1);
    /* A notification for a connection that has ended is discarded. */
    world.has_buffer = false;
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    disconnect(&hosts[0]);
    settle();
    world.has_buffer = true;
    settle();
    CHECK(world.notifications == 1 && hosts[0].references == 0);
}

int main(void) {
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    RUN(holds_a_reference_until_the_disconnection_was_handled);
    RUN(answers_wrong_requests_with_att_errors);
    RUN(restores_the_subscriptions_of_a_bonded_host);
    RUN(notifies_progress_while_the_host_is_subscribed);
    RUN(discards_the_notifications_of_a_connection_that_has_ended);
    RUN(a_host_without_buffers_does_not_delay_another_host);
    RUN(requires_an_authenticated_link_only_if_configured);
    RUN(announces_the_sizes_of_the_slot);
    RUN(drops_only_data_if_the_queue_is_full);
    RUN(keeps_the_order_of_the_events);
    RUN(sends_a_notification_again_if_the_stack_had_no_buffer);
    test_updates();
    test_power_cuts();
    return 0;
}
