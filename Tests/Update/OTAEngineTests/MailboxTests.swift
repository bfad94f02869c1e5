import DescriptorIO
import OTASimulator
import Testing

@Suite("The mailbox and the timer of a loop") struct MailboxTests {
    @Test("a loop wakes at each deadline that is earlier than its running timer, and again at a deadline after that")
    func deadlines() throws {
        let time = VirtualTime()
        let wakes = try time.run {
            await withDiscardingTaskGroup { group in
                var mailbox = Mailbox(time, wake: true)
                for seconds in [10, 5, 20, 7] { mailbox.arm(.seconds(seconds), in: &group) }
                mailbox.arm(nil, in: &group)
                mailbox.post.yield(false)
                var wakes: [Duration] = []
                for await isWake in mailbox.messages {
                    if isWake { wakes.append(mailbox.now) }
                    if mailbox.now == .seconds(10) { mailbox.arm(.seconds(20), in: &group) }
                    if wakes.count == 3 { break }
                }
                group.cancelAll()
                return wakes
            }
        }
        #expect(wakes == [.seconds(5), .seconds(10), .seconds(20)])
    }

    @Test("after a sleep of the computer, a late deadline wakes the loop once, 100 ms later, also if it is armed again")
    func lateDeadline() throws {
        let time = VirtualTime()
        let wakes = try time.run {
            await withDiscardingTaskGroup { group in
                var mailbox = Mailbox(time, wake: true)
                var wakes: [Duration] = []
                // The deadline 0 is late from now on.
                try? await time.sleep(for: .seconds(10))
                for _ in 0..<4 {
                    mailbox.arm(.zero, in: &group)
                    try? await time.sleep(for: .milliseconds(20))
                }
                for await isWake in mailbox.messages {
                    if isWake { wakes.append(mailbox.now) }
                    mailbox.arm(.zero, in: &group)
                    if wakes.count == 3 { break }
                }
                group.cancelAll()
                return wakes
            }
        }
        #expect(wakes == [100, 200, 300].map { .seconds(10) + .milliseconds($0) })
    }
}
