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
}
