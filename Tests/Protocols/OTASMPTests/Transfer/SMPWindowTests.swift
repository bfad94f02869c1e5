import OTASMP
import Testing

@Suite("Window of an SMP upload") struct SMPWindowTests {
    /// Returns the window's size after each of the answers, without a gap.
    private func sizes(_ window: inout SMPWindow, answers: Int) -> [Int] {
        (0..<answers).map { _ in
            window.grow()
            return window.size
        }
    }

    @Test("a window starts with two chunks and grows by one after each answered window, up to its limit")
    func growsToItsLimit() {
        var window = SMPWindow(limit: 4, delivery: .fragmented)
        #expect(window.size == 2)
        #expect(sizes(&window, answers: 8) == [2, 3, 3, 3, 4, 4, 4, 4])
        var one = SMPWindow(limit: 1, delivery: .fragmented)
        #expect(one.size == 1 && sizes(&one, answers: 3) == [1, 1, 1])
    }

    @Test("a gap halves the window, which then stays below the size that had the gap")
    func staysBelowTheSizeThatOverflowed() {
        var window = SMPWindow(limit: 7, size: 6, delivery: .fragmented)
        window.shrink()
        #expect(window.size == 3)
        #expect(sizes(&window, answers: 300).max() == 5)
        #expect(window.size == 5)
    }

    @Test("the answers before a gap do not count after it")
    func startsTheCountAgain() {
        var window = SMPWindow(limit: 3, size: 2, delivery: .fragmented)
        var answered = window
        #expect(sizes(&answered, answers: 1) == [2])
        window.shrink()
        answered.shrink()
        #expect(answered == window)
    }

    @Test("a size with a gap is tried again after 100 windows, and after twice as many at each failure")
    func triesAgainLaterAndLater() {
        var window = SMPWindow(limit: 3, size: 3, delivery: .fragmented)
        window.shrink()
        #expect(window.size == 1)
        var trials: [Int] = []
        for _ in 0..<3 {
            var copy = window
            trials.append(sizes(&copy, answers: 5000).firstIndex(of: 3) ?? -1)
            window = lastTried(window)
        }
        #expect(trials == [300, 600, 1200])
    }

    /// Returns the window after the size with a gap has failed again.
    private func lastTried(_ window: SMPWindow) -> SMPWindow {
        var window = window
        while window.size < 3 { window.grow() }
        window.shrink()
        return window
    }

    @Test("a size that works as long as its wait resets the wait")
    func forgetsAnOverflowOfLongAgo() {
        var window = SMPWindow(limit: 3, size: 3, delivery: .fragmented)
        window.shrink()
        _ = sizes(&window, answers: 2000)
        #expect(window.size == 3)
        window.shrink()
        let again = sizes(&window, answers: 400).firstIndex(of: 3)
        #expect(again == 300)
    }

    @Test("a size with a gap is tried again early over a lossy link")
    func triesAgainSoonOverALossyLink() {
        var window = SMPWindow(limit: 3, size: 3, delivery: .lossy(discardTime: .zero))
        window.shrink()
        let again = sizes(&window, answers: 100).firstIndex(of: 3)
        #expect(again == 24)
    }

    @Test("a window never shrinks below one chunk, and tries two again after a gap at one")
    func neverShrinksBelowOne() {
        var window = SMPWindow(limit: 3, size: 1, delivery: .whole)
        for _ in 0..<5 { window.shrink() }
        #expect(window.size == 1)
        let again = sizes(&window, answers: 300).firstIndex(of: 2)
        #expect(again == 199)
    }

    @Test("a gap at one chunk causes a pause after each answer, which doubles at each further gap")
    func pausesAfterAGapAtOne() {
        var window = SMPWindow(limit: 3, size: 2, delivery: .whole)
        window.shrink()
        #expect(window.pause == .zero)
        let pauses = (0..<7).map { _ in
            window.shrink()
            return window.pause
        }
        #expect(pauses == [20, 40, 80, 160, 320, 640, 640].map { .milliseconds($0) })
        _ = sizes(&window, answers: 200)
        #expect(window.size == 2 && window.pause == .zero)
        var lossy = SMPWindow(limit: 3, size: 1, delivery: .lossy(discardTime: .zero))
        lossy.shrink()
        #expect(lossy.pause == .zero, "a lossy link loses packets without an overflow")
    }
}
